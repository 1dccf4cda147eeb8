"""What the server saw and answered: for tests that look, and for callers that lost an answer.

Both lists are bounded; the oldest entries go first.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

_KEPT: Final = 10_000


class State(StrEnum):
    """Where a request stands."""

    OPEN = "open"
    FINISHED = "finished"
    FAILED = "failed"
    CLOSED_BY_CLIENT = "closed_by_client"


@dataclass(slots=True, kw_only=True)
class Record:
    """One request. Times are seconds since the Unix epoch."""

    key: str
    model: str
    received_time: float = field(default_factory=time.time)
    ended_time: float | None = None
    state: State = State.OPEN
    tokens_sent: int = 0

    def to_json(self) -> dict[str, object]:
        """For ``GET /requests``."""
        return {
            "key": self.key,
            "model": self.model,
            "received_time": self.received_time,
            "ended_time": self.ended_time,
            "state": self.state,
            "tokens_sent": self.tokens_sent,
        }


class Journal:
    """All requests, and the finished answers by Idempotency-Key."""

    def __init__(self) -> None:
        self._records: deque[Record] = deque(maxlen=_KEPT)
        self._answers: OrderedDict[str, dict[str, object]] = OrderedDict()
        self._open_keys: set[str] = set()
        self._asked: Counter[Hashable] = Counter()
        self._count = 0

    def open(self, *, key: str, model: str) -> Record:
        """A request has arrived."""
        record = Record(key=key, model=model)
        self._records.append(record)
        self._open_keys.add(key)
        self._count += 1
        return record

    def asked_before(self, question: Hashable) -> int:
        """How often this question came before; it has come once more now."""
        before = self._asked[question]
        self._asked[question] += 1
        return before

    def end(self, record: Record, state: State) -> None:
        """The request is over; only the first ending counts."""
        if record.state is State.OPEN:
            record.state, record.ended_time = state, time.time()
            self._open_keys.discard(record.key)

    def keep(self, key: str, answer: dict[str, object]) -> None:
        """A whole answer, for look-up by its key; an answer without a key is not kept."""
        if key:
            self._answers[key] = answer
            while len(self._answers) > _KEPT:
                self._answers.popitem(last=False)

    def answer(self, key: str) -> dict[str, object] | None:
        """The answer that was given under this key."""
        return self._answers.get(key)

    def is_open(self, key: str) -> bool:
        """A request with this key is being answered; requests without a key do not count."""
        return bool(key) and key in self._open_keys

    def to_json(self, key: str | None) -> dict[str, object]:
        """Counts over all requests, and the records (of one key, if given)."""
        shown: Iterable[Record] = (r for r in self._records if key is None or r.key == key)
        by_state = {str(state): sum(r.state is state for r in self._records) for state in State}
        return {"count": self._count, **by_state, "requests": [record.to_json() for record in shown]}
