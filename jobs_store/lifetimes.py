"""How long rows are kept, by class."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, ClassVar, Final, Self

DAY: Final = 86_400.0
_ORDERS: Final = (("payload", "events", "result", "jobs"), ("payload", "attempts", "jobs"))
"""What a job needs goes last: nothing runs without its payload, and a log has the text of its result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """Seconds, for everything of a job from its end on.

    payload: what a job asks; a FAILED job can be retried so long. events: its log, deltas included.
    result: the answer. attempts: with what each cost. jobs: the job itself, its facts and its settled
    reservations. calls: from their settlement on. quotes, audit: from when they were made. Idempotency keys
    have a time of their own, which creates give them.

    Raises ValueError, naming the fields, for a negative one and when a class would go before what needs it.
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
        faults = [
            f"{name} must be 0 or more seconds" for name, value in asdict(self).items() if not value >= 0
        ]
        faults += [
            f"{later} must be at least {sooner}"
            for order in _ORDERS
            for sooner, later in pairwise(order)
            if getattr(self, later) < getattr(self, sooner)
        ]
        if faults:
            raise ValueError(f"retention: {'; '.join(faults)}")

    def overridden(self, changed: Mapping[str, float]) -> Self:
        """With a tenant's own lifetimes. Raises ValueError for a class that there is not, too."""
        unknown = sorted(changed.keys() - asdict(self).keys())
        if unknown:
            raise ValueError(f"retention: no such class: {', '.join(unknown)}")
        return type(self)(**{**asdict(self), **changed})
