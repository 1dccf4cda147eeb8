"""How long rows are kept, by class."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, ClassVar, Final, Self

DAY: Final = 86_400.0
_ORDERS: Final = (("payload", "events", "result", "jobs"), ("payload", "attempts", "jobs"))
"""What a job needs goes last: nothing runs without its payload, and a log has the text of its result."""


class ImpossibleLifetimes(ValueError):
    """Lifetimes that contradict each other or make no sense. `faults`: what is wrong, by class."""

    def __init__(self, faults: Mapping[str, str]) -> None:
        super().__init__(f"retention: {'; '.join(f'{name} {fault}' for name, fault in faults.items())}")
        self.faults = faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """Seconds, for everything of a job from its end on.

    payload: what a job asks; a FAILED job can be retried so long. events: its log, deltas included.
    result: the answer. attempts: with what each cost. jobs: the job itself, its facts and its settled
    reservations. calls: from their settlement on. quotes, audit: from when they were made. Idempotency keys
    have a time of their own, which creates give them.

    Raises ImpossibleLifetimes for a negative one and when a class would go before what needs it.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    """For settings: a class that there is not is a fault."""

    payload: float = 7 * DAY
    events: float = 7 * DAY
    result: float = 30 * DAY
    attempts: float = 90 * DAY
    jobs: float = 90 * DAY
    calls: float = 90 * DAY
    quotes: float = 7 * DAY
    audit: float = 365 * DAY

    def __post_init__(self) -> None:
        """Checks them all."""
        faults = {name: "must be 0 or more seconds" for name, value in asdict(self).items() if not value >= 0}
        for order in _ORDERS:
            for sooner, later in pairwise(order):
                if getattr(self, later) < getattr(self, sooner):
                    faults.setdefault(later, f"must be at least {sooner}")
        if faults:
            raise ImpossibleLifetimes(faults)

    def overridden(self, changed: Mapping[str, float]) -> Self:
        """With a tenant's own lifetimes. Raises ImpossibleLifetimes for a class that there is not, too."""
        unknown = sorted(changed.keys() - asdict(self).keys())
        if unknown:
            raise ImpossibleLifetimes(dict.fromkeys(unknown, "is no class of rows"))
        return type(self)(**{**asdict(self), **changed})
