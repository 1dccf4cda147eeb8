"""PostgreSQL under a budget: the one way to asyncpg.

Waiting for a connection and every statement are spent from the same budget. Connections carry no session
state, so nothing has to be reset between callers, and PgBouncer in transaction mode works.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Self, TypeVar

import asyncpg

from budget.connections import Connections, DatabaseLimits, Phase
from budget.core import Budget
from budget.policy import Policy
from budget.postgres_errors import DRIVER_ERRORS, typed_error
from budget.spans import ClientSpan
from budget.spend import spend
from budget.transaction import Statements, Transaction, opening

__all__ = ["Database", "DatabaseLimits", "Statements", "Transaction"]

Record = asyncpg.Record
Result = TypeVar("Result")

CONNECT: Final = Policy(dependency="postgres", method="connect", limit=float("inf"))


class Database:
    """A bounded number of connections to one database, as one role.

    Every method raises BudgetTooLow (nothing was touched), BudgetExhausted, PoolTimeout or DatabaseTimeout
    (time), DatabaseUnavailable, DatabaseConflict (try the whole again), ConstraintViolation.
    """

    def __init__(
        self,
        dsn: str,
        *,
        size: int,
        application_name: str,
        limits: DatabaseLimits | None = None,
        tenant_setting: str = "hourglass.tenants",
        statement_cache_size: int = 100,
    ) -> None:
        """Not connected yet: until `connect` has succeeded every call raises DatabaseUnavailable.

        statement_cache_size: prepared statements kept for each connection; 0 for a PgBouncer before 1.21.
        """
        self._dsn = dsn
        self._limits = limits or DatabaseLimits()
        self._connections = Connections(size=size, limits=self._limits)
        self._tenant_setting = tenant_setting
        self._statement_cache_size = statement_cache_size
        self._settings = {"application_name": application_name}

    @classmethod
    async def open(
        cls,
        dsn: str,
        *,
        budget: Budget,
        size: int,
        application_name: str,
        limits: DatabaseLimits | None = None,
        tenant_setting: str = "hourglass.tenants",
        statement_cache_size: int = 100,
    ) -> Self:
        """A connected one; see `__init__` and `connect`."""
        database = cls(
            dsn,
            size=size,
            application_name=application_name,
            limits=limits,
            tenant_setting=tenant_setting,
            statement_cache_size=statement_cache_size,
        )
        await database.connect(budget)
        return database

    async def connect(self, budget: Budget) -> None:
        """Connects as often as its size says; BudgetExhausted or DatabaseUnavailable when that cannot be done
        within `budget`, and it may be tried again."""
        async with spend(budget, CONNECT):
            try:
                await self._connections.open(
                    self._dsn,
                    statement_cache_size=self._statement_cache_size,
                    server_settings=self._settings,
                )
            except DRIVER_ERRORS as error:
                raise typed_error(error, CONNECT) or error from error

    @property
    def connected(self) -> bool:
        """True once `connect` has succeeded; it says nothing about the server's health since."""
        return self._connections.opened

    async def close(self, budget: Budget) -> None:
        """Waits for what is in use, at most until `budget` is over, then ends every connection."""
        await self._connections.close(budget)

    @property
    def in_use(self) -> int:
        """Connections that are lent or being cleaned up."""
        return self._connections.gate.inside

    @property
    def waiting(self) -> int:
        """Callers that wait for a connection and are still alive."""
        return self._connections.gate.waiting

    @property
    def size(self) -> int:
        """How many connections there may be."""
        return self._connections.gate.slots

    @property
    def waits(self) -> int:
        """Callers that had to wait for a connection, since the start."""
        return self._connections.gate.waits

    @property
    def waited(self) -> float:
        """Seconds that they waited, all together."""
        return self._connections.gate.waited

    @property
    def established(self) -> int:
        """Connections that there are, lent or idle; fewer than `size` while the server is away."""
        return self._connections.established

    @property
    def cut_off(self) -> int:
        """Statements that were cut off, since the start: their caller left, or their time was over."""
        return self._connections.cut_off

    @property
    def interrupted(self) -> int:
        """Connections that were dropped in mid-work, since the start: by a cancel, a limit or an error."""
        return self._connections.interrupted

    @property
    def lost(self) -> int:
        """Connections that have ended, by either side, since the start."""
        return self._connections.lost

    @asynccontextmanager
    async def transaction(
        self,
        budget: Budget,
        policy: Policy,
        *,
        tenants: Sequence[str] = (),
        attempt: int = 1,
        reading: bool = False,
    ) -> AsyncIterator[Transaction]:
        """One transaction, committed when the block ends and rolled back when it raises; one spend covers
        all.

        `tenants` are what the session may see (row-level security). `reading`: nothing can be changed in it.
        Also raises CommitOutcomeUnknown, unless it only reads, and ValueError for a malformed tenant.
        """
        phase = Phase()
        with ClientSpan(policy, attempt=attempt):
            async with (
                spend(budget, policy, attempt=attempt, timed_out=phase) as child,
                self._connections.lend(child, policy, phase) as lent,
            ):
                transaction = Transaction(lent, child=child, policy=policy, phase=phase, limits=self._limits)
                await transaction.begin(self._opening(child, tenants, reading=reading))
                yield transaction
                await (transaction.end_reading() if reading else transaction.commit(budget))

    def fetch(
        self, budget: Budget, policy: Policy, sql: str, *args: object
    ) -> Coroutine[Any, Any, list[Record]]:
        """All rows of one statement, without a transaction around it: for roles that need no tenants.

        The role's own statement_timeout and our cancel bound it.
        """
        return self._single(budget, policy, Statements.fetch, sql, args)

    def fetchrow(
        self, budget: Budget, policy: Policy, sql: str, *args: object
    ) -> Coroutine[Any, Any, Record | None]:
        """The first row of one statement; see `fetch`."""
        return self._single(budget, policy, Statements.fetchrow, sql, args)

    def fetchval(self, budget: Budget, policy: Policy, sql: str, *args: object) -> Coroutine[Any, Any, Any]:
        """The first value of one statement; see `fetch`."""
        return self._single(budget, policy, Statements.fetchval, sql, args)

    def execute(self, budget: Budget, policy: Policy, sql: str, *args: object) -> Coroutine[Any, Any, str]:
        """The tag of one statement; see `fetch`."""
        return self._single(budget, policy, Statements.execute, sql, args)

    async def _single(
        self,
        budget: Budget,
        policy: Policy,
        run: Callable[..., Awaitable[Result]],
        sql: str,
        args: tuple[object, ...],
    ) -> Result:
        phase = Phase()
        with ClientSpan(policy):
            async with (
                spend(budget, policy, timed_out=phase) as child,
                self._connections.lend(child, policy, phase) as lent,
            ):
                statements = Statements(lent, child=child, policy=policy, phase=phase, limits=self._limits)
                return await run(statements, sql, *args)

    def _opening(self, child: Budget, tenants: Sequence[str], *, reading: bool) -> str:
        return opening(
            child.remaining(),
            tenants=tenants,
            tenant_setting=self._tenant_setting,
            limits=self._limits,
            reading=reading,
        )
