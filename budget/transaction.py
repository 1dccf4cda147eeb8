"""One transaction: how it opens, what runs in it, how it ends."""

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

import asyncpg

from budget.connections import DatabaseLimits, Lent, Phase
from budget.core import Budget
from budget.errors import CommitOutcomeUnknown, DependencyTimeout
from budget.outlast import outlast, patience
from budget.policy import Policy
from budget.postgres_errors import DRIVER_ERRORS, aborted, typed_commit_error, typed_error

Result = TypeVar("Result")

_TENANT: Final = re.compile(r"[a-z0-9-]{1,63}")
_HEAD_START_MS: Final = 10
_LONGEST_MS: Final = 86_400_000


def opening(
    remaining: float,
    *,
    tenants: Sequence[str],
    tenant_setting: str,
    limits: DatabaseLimits,
    reading: bool = False,
) -> str:
    """BEGIN and every limit of the transaction in one message: no trip more than a bare BEGIN.

    Whole milliseconds and checked names only, because SET takes no parameters; 0 would mean "no limit". The
    server's limits lie a little below ours, so that it stops by itself and needs no cancel (userver does the
    same), and the lock's below the statement's, so that the error says which it was. An idle transaction is
    ended by the server only when its client has long been gone.
    """
    for tenant in tenants:
        if not _TENANT.fullmatch(tenant):
            raise ValueError(f"tenants: {tenant!r}, wanted {_TENANT.pattern}")
    statement = max(1, math.ceil(min(remaining * 1000, _LONGEST_MS)) - _HEAD_START_MS)
    idle = statement + math.ceil(limits.clean_up * 1000) + _HEAD_START_MS
    message = (
        f"BEGIN{' READ ONLY' if reading else ''}; SET LOCAL statement_timeout = {statement}; "
        f"SET LOCAL lock_timeout = {max(1, statement - 1)}; "
        f"SET LOCAL idle_in_transaction_session_timeout = {idle}"
    )
    if reading:
        # A role may have it off: PostgreSQL 18 can crash when a statement that prunes partitions as it runs
        # meets a row that has changed. What only reads meets none.
        message = f"{message}; SET LOCAL enable_partition_pruning = on"
    return f"{message}; SET LOCAL {tenant_setting} = '{','.join(tenants)}'" if tenants else message


class Statements:
    """Runs statements on a lent connection, under a child budget, with typed errors.

    Raises DatabaseTimeout (LockTimeout for a lock), DatabaseUnavailable, DatabaseConflict,
    ConstraintViolation; an error that only a wrong statement can cause passes as the driver's own.
    """

    def __init__(
        self, lent: Lent, *, child: Budget, policy: Policy, phase: Phase, limits: DatabaseLimits
    ) -> None:
        self._lent = lent
        self._connection = lent.connection
        self._child = child
        self._policy = policy
        self._phase = phase
        self._limits = limits

    def fetch(self, sql: str, *args: object) -> Coroutine[Any, Any, list[asyncpg.Record]]:
        """All rows."""
        return self._run(self._connection.fetch, sql, args)

    def fetchrow(self, sql: str, *args: object) -> Coroutine[Any, Any, asyncpg.Record | None]:
        """The first row, None if there is none."""
        return self._run(self._connection.fetchrow, sql, args)

    def fetchval(self, sql: str, *args: object) -> Coroutine[Any, Any, Any]:
        """The first column of the first row, None if there is no row."""
        return self._run(self._connection.fetchval, sql, args)

    def execute(self, sql: str, *args: object) -> Coroutine[Any, Any, str]:
        """The command's tag, e.g. `UPDATE 3`."""
        return self._run(self._connection.execute, sql, args)

    def _backstop(self) -> float:
        # The spend's timer ends a statement. The driver's own comes later: without it command_timeout would
        # hold.
        return min(self._child.remaining(), _LONGEST_MS / 1000) + self._limits.cancel

    async def _run(
        self, method: Callable[..., Awaitable[Result]], sql: str, args: tuple[object, ...]
    ) -> Result:
        try:
            return await method(sql, *args, timeout=self._backstop())
        except DRIVER_ERRORS as error:
            typed = typed_error(error, self._policy)
            if typed is None:
                raise
            try:
                if isinstance(typed, DependencyTimeout):
                    await self._use_up_head_start(typed)
                raise typed from error
            finally:
                del typed  # its traceback holds this frame

    async def _use_up_head_start(self, timeout: DependencyTimeout) -> None:
        # The server was told to stop a little before the limit; the limit is what was promised.
        self._phase.kind = type(timeout)
        if self._child.remaining() <= 2 * _HEAD_START_MS / 1000:
            await asyncio.sleep(self._child.remaining())


class Transaction(Statements):
    """Statements between BEGIN and COMMIT. No RPC and no HTTP call belongs in here."""

    async def begin(self, message: str) -> None:
        """Sends the opening message."""
        self._lent.in_transaction = True
        await self.execute(message)

    async def commit(self, budget: Budget) -> None:
        """Sends COMMIT and waits for its answer, also when the caller is cancelled meanwhile or time is up.

        It may take a quarter of the reserve of `budget`, the request's own, so that what came of it can still
        be told.
        CommitOutcomeUnknown when the answer does not come in that time or the connection is lost before it.
        DatabaseError (25P02) when a statement had failed and its error was swallowed: nothing was committed.
        """
        committing = asyncio.create_task(self._send_commit())
        committing.add_done_callback(_look_at)
        self._lent.committing = committing
        try:
            tag = await self._answer_to(committing, budget)
        except DRIVER_ERRORS as error:
            raise typed_commit_error(error, self._policy) or error from error
        if tag != "COMMIT":
            raise aborted(self._policy)

    async def end_reading(self) -> None:
        """Ends one that changed nothing: no interruption leaves anything in doubt, so nothing is shielded.

        DatabaseError as for `commit`.
        """
        if await self.execute("COMMIT") != "COMMIT":
            raise aborted(self._policy)

    async def _answer_to(self, committing: asyncio.Task[str], budget: Budget) -> str:
        try:
            return await asyncio.shield(committing)
        except asyncio.CancelledError:  # our timer or the caller: either way the outcome comes first
            if await outlast(committing, budget=patience(budget, self._limits.commit)):
                return committing.result()
        raise CommitOutcomeUnknown(dependency=self._policy.dependency, method=self._policy.method)

    async def _send_commit(self) -> str:
        return await self._connection.execute("COMMIT", timeout=self._limits.commit)


def _look_at(committing: asyncio.Task[str]) -> None:
    # Asyncio complains about an error that nobody looks at, and nobody does once the outcome was given up.
    if not committing.cancelled():
        committing.exception()
