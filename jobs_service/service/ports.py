"""What the use cases need of other services; `rpc` has the adapters."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from collections.abc import Sequence as Many
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from budget.core import Budget
from budget.policy import Policy
from jobs_service.domain.pricing import Bounds
from jobs_service.domain.quoting import Load
from jobs_service.domain.short_call import WorkerCall, WorkerMessage
from jobs_store.events import Event
from jobs_store.identifiers import JobId, Sequence, TenantId
from jobs_store.quotes import QuotedModel
from jobs_store.reading import Position

JobKey: TypeAlias = tuple[TenantId, JobId]


class PriceSource(Protocol):
    """PricingService."""

    async def price(
        self, model: str, bounds: Bounds, *, budget: Budget, policy: Policy, retry_attempt: int = 0
    ) -> QuotedModel:
        """What a model costs now.

        Raises UnknownModel, PricingUnavailable, UpstreamTimeout and the other errors of a budgeted call.
        """


class WorkerLook(Protocol):
    """One look at how busy the workers are; never raises but for a cancel."""

    async def look(self, *, budget: Budget, policy: Policy) -> Load:
        """The load of the worker that answered, or why none did."""


class ShortCalls(Protocol):
    """The workers' Generate."""

    async def reach(self, *, budget: Budget) -> None:
        """Waits, not for long, until some worker takes calls. Raises WorkerUnavailable."""

    async def run(
        self, call: WorkerCall, take: Callable[[WorkerMessage], Awaitable[None]], *, budget: Budget
    ) -> None:
        """Asks one worker, once, and hands on what comes, as fast as `take` takes it.

        However it is left, the call ends with it. Raises WorkerRefused, WorkerUnavailable, ProviderFailed,
        BudgetTooLow, BudgetExhausted, and whatever `take` raises.
        """


class EventReader(Protocol):
    """The durable events of jobs; `jobs_store.reading.JobReader` is one."""

    async def position(self, tenant: TenantId, job_id: JobId, *, budget: Budget) -> Position:
        """Where a job stands. Raises JobNotFound."""

    async def events(
        self, tenant: TenantId, job_id: JobId, *, after: Sequence, limit: int, budget: Budget
    ) -> list[Event]:
        """Up to `limit` events after a cursor, in order."""


class PositionsReader(Protocol):
    """Where many jobs stand at once; `jobs_store.reading.JobReader` is one."""

    async def positions(self, jobs: Many[JobKey], *, budget: Budget) -> Mapping[JobKey, Position]:
        """Where these jobs stand; those that are not there are left out."""


class Positions(Protocol):
    """What the process's one timer read last; `WatchTimer` is one."""

    @property
    def ticking(self) -> bool:
        """Whether the timer reads, so that nobody else needs to: a change wakes whoever waits for the job."""

    def latest(self, tenant: TenantId, job_id: JobId) -> Position | None:
        """Where a job stood at the last tick; None when that is not known."""


class Feed(Protocol):
    """A worker's live events of one job, bounded in memory."""

    def ready(self) -> Event | None:
        """The next event; None when it has not come yet. FeedEnded when none will come."""

    async def arrival(self, within: float) -> bool:
        """Waits until `ready` has something to tell; False when that took more than so many seconds."""


class FeedEnded(Exception):
    """The worker's stream is over: the run ended, moved, or the worker cannot be reached. Read the store."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.cause = reason


class ProgressSource(Protocol):
    """The live events of whichever worker runs a job; `SharedProgress` is one."""

    def follow(
        self, address: str, tenant: TenantId, job_id: JobId, *, after: Sequence, budget: Budget
    ) -> AbstractAsyncContextManager[Feed]:
        """The feed of the worker at an address, for the length of a block. Entering does not wait for it."""


class EventSource(Protocol):
    """The workers' StreamProgress."""

    def events(
        self, address: str, tenant: TenantId, job_id: JobId, *, after: Sequence, budget: Budget
    ) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """The events of the worker at an address, for the length of a block; over when the run is.

        Entering and reading raise UpstreamError and the other errors of a budgeted call.
        """
