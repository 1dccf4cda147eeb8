"""Connections lent for the length of a block, and what becomes of those that are interrupted.

An interrupted connection is cleaned up by a task of its own: wait for the cancel to be acknowledged, roll
back, give back; or end the connection when that takes too long (asyncpg#1326: a cancel needs a second
connection to the server and may hang). Its slot stays taken until then, so a storm of cancels costs at most
one extra connection for each slot.
"""

import asyncio
import time
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import asyncpg
from opentelemetry import metrics

from budget.core import Budget
from budget.errors import DatabaseTimeout, DatabaseUnavailable, DependencyTimeout, PoolTimeout
from budget.gate import Gate
from budget.policy import Policy
from budget.postgres_errors import DRIVER_ERRORS, typed_error

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

_CUTS: Final = (asyncio.CancelledError, DependencyTimeout)
# Finds the provider that the process sets later, if it sets one.
_duration: Final = metrics.get_meter("hourglass.budget").create_histogram(
    "hourglass.database.transaction.duration",
    unit="s",
    description="For how long a transaction, or a statement that is one by itself, had its connection",
    explicit_bucket_boundaries_advisory=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5),
)
Connection: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseLimits:
    """Seconds that the adapter may spend on its own account, beside what callers spend.

    cancel: sending one cancel and seeing it acknowledged.
    clean_up: cancel, rollback and return of one connection; after that it is ended.
    commit: the answer to a COMMIT that was sent.
    connect: making one connection when nobody in particular waits for it.
    """

    cancel: float = 0.5
    clean_up: float = 1.0
    commit: float = 2.0
    connect: float = 5.0


class Phase:
    """What a call spends its time on; makes the error of a used-up limit (see `budget.spend.TimeoutKind`)."""

    def __init__(self) -> None:
        self.kind: type[DependencyTimeout] = PoolTimeout

    def __call__(self, *, dependency: str, method: str, limit: float) -> DependencyTimeout:
        """The error for the present phase."""
        return self.kind(dependency=dependency, method=method, limit=limit)


@dataclass(slots=True, kw_only=True)
class Lent:
    """A connection in somebody's hands, and what has to be undone if they drop it."""

    connection: Connection
    in_transaction: bool = False
    committing: asyncio.Task[str] | None = None

    def commit_is_pending(self) -> bool:
        """True between COMMIT and its answer."""
        return self.committing is not None and not self.committing.done()


class Connections:
    """A pool behind a gate. `size` bounds both."""

    def __init__(self, *, size: int, limits: DatabaseLimits) -> None:
        self.gate = Gate(size)
        self.lost = 0
        """How many connections ended, for whatever reason, since the start."""
        self.cut_off = 0
        """How many statements were cut off since the start: their caller left, or their time was over."""
        self.interrupted = 0
        """How many were dropped in mid-work since the start."""
        self._limits = limits
        self.opened = False
        """False until `open` has succeeded: nothing is lent before."""
        self._pool: asyncpg.Pool[asyncpg.Record]
        self._cleaning: set[asyncio.Task[None]] = set()

    @property
    def established(self) -> int:
        """Connections that there are now."""
        return self._pool.get_size() if self.opened else 0

    async def open(self, dsn: str, **settings: Any) -> None:
        """Connects `size` times; raises what the driver raises."""
        self._pool = asyncpg.create_pool(
            dsn,
            min_size=self.gate.slots,
            max_size=self.gate.slots,
            timeout=self._limits.connect,
            command_timeout=self._limits.cancel,
            init=self._count_its_end,
            reset=_nothing_to_reset,
            **settings,
        )
        try:
            await self._pool
        except BaseException:
            self._pool.terminate()
            raise
        self.opened = True

    async def _count_its_end(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        connection.add_termination_listener(self._lose)

    def _lose(self, _: object) -> None:
        self.lost += 1

    def lend(self, child: Budget, policy: Policy, phase: Phase) -> AbstractAsyncContextManager[Lent, None]:
        """A connection for a block inside a spend, whose timer ends the wait too."""
        return _Lending(self, child, policy, phase)

    async def close(self, budget: Budget) -> None:
        """Waits for what is lent and for clean-ups, then closes; ends all connections when `budget` is
        over."""
        if not self.opened:
            return
        try:
            async with asyncio.timeout(max(budget.remaining(), 1e-6)):
                if self._cleaning:
                    await asyncio.wait(self._cleaning)
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()

    async def take(self, child: Budget, policy: Policy) -> Lent:
        """A connection that must be given back or cleaned up; see `lend`."""
        if not self.opened:
            raise DatabaseUnavailable(dependency=policy.dependency, method=policy.method)
        await self.gate.enter(child)
        try:
            return Lent(connection=await self._pool.acquire())
        except DRIVER_ERRORS as error:
            self.gate.leave()
            raise typed_error(error, policy) or error from error
        except BaseException:
            self.gate.leave()
            raise

    async def give_back(self, lent: Lent) -> None:
        """Takes one back that is fit to be lent again."""
        try:
            await self._pool.release(lent.connection)
        except DRIVER_ERRORS:
            pass  # the work is done, and the driver ends a connection that it cannot take back
        finally:
            self.gate.leave()

    def clean_up_later(self, lent: Lent) -> asyncio.Task[None]:
        """Takes one back that was interrupted; its slot is free when the task that is returned has ended."""
        self.interrupted += 1
        cleaning = asyncio.create_task(self._clean_up(lent), name="database clean-up")
        self._cleaning.add(cleaning)
        cleaning.add_done_callback(self._cleaning.discard)
        return cleaning

    async def _clean_up(self, lent: Lent) -> None:
        try:
            async with asyncio.timeout(self._limits.clean_up):
                await self._undo(lent)
                await self._pool.release(lent.connection)
        except Exception:  # noqa: BLE001 # whatever went wrong, this connection is not fit to be lent again
            await self._discard(lent)
        except asyncio.CancelledError:
            await self._discard(lent)
            raise
        finally:
            self.gate.leave()

    async def _undo(self, lent: Lent) -> None:
        if lent.committing is not None:
            await asyncio.wait({lent.committing})
        # A cancel between Parse and Execute leaves asyncpg idle and the backend in an implicit transaction
        # that nobody ends, its locks held: any simple query ends it.
        statement = "ROLLBACK" if lent.in_transaction else "SELECT 1"
        await lent.connection.execute(statement, timeout=self._limits.clean_up)

    async def _discard(self, lent: Lent) -> None:
        with suppress(Exception):  # the driver was faster and has ended it itself
            lent.connection.terminate()
        with suppress(Exception):
            await self._pool.release(lent.connection)


class _Lending:
    """The block of `Connections.lend`."""

    __slots__ = ("_child", "_connections", "_lent", "_phase", "_policy", "_since")

    def __init__(self, connections: Connections, child: Budget, policy: Policy, phase: Phase) -> None:
        self._connections = connections
        self._child = child
        self._policy = policy
        self._phase = phase

    async def __aenter__(self) -> Lent:
        self._lent = await self._connections.take(self._child, self._policy)
        self._phase.kind = DatabaseTimeout
        self._since = time.monotonic()
        return self._lent

    async def __aexit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        _measure(self._policy, self._since, error)
        if error is None:
            await self._connections.give_back(self._lent)
            return
        if isinstance(error, _CUTS):
            self._connections.cut_off += 1
        cleaning = self._connections.clean_up_later(self._lent)
        if isinstance(error, Exception) and not self._lent.commit_is_pending():
            await asyncio.wait({cleaning}, timeout=self._child.remaining())


def _measure(policy: Policy, since: float, error: BaseException | None) -> None:
    ending = "ok" if error is None else "cut_off" if isinstance(error, _CUTS) else "error"
    _duration.record(
        time.monotonic() - since, {"hourglass.dependency.method": policy.method, "hourglass.outcome": ending}
    )


async def _nothing_to_reset(_: object) -> None:
    """Sessions carry no state."""
