"""The rates that were seen last, for when PricingService is out."""

from collections import OrderedDict
from dataclasses import dataclass

from budget.core import Clock
from jobs_store.quotes import QuotedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    line: QuotedModel
    time: float


class LastKnownPrices:
    """Remembers the rates of the models that were asked for lately; forgets the ones longest unseen first.

    max_age: seconds for which rates may be used.
    """

    def __init__(self, *, max_age: float, clock: Clock, capacity: int = 1000) -> None:
        self._max_age = max_age
        self._clock = clock
        self._capacity = capacity
        self._seen: OrderedDict[str, _Seen] = OrderedDict()

    def remember(self, line: QuotedModel) -> None:
        """These rates are good now."""
        self._seen[line.model] = _Seen(line=line, time=self._clock())
        self._seen.move_to_end(line.model)
        if len(self._seen) > self._capacity:
            self._seen.popitem(last=False)

    def recall(self, model: str) -> QuotedModel | None:
        """The rates of a model, unless they are too old or were never seen."""
        seen = self._seen.get(model)
        fresh = seen is not None and self._clock() - seen.time <= self._max_age
        return seen.line if seen is not None and fresh else None
