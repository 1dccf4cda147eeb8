"""Hears wake-ups from PostgreSQL: one connection a process, watched, and made again when it is lost.

It needs a connection to the server itself: PgBouncer in transaction mode loses LISTEN. A network that goes
silent tells nobody, so the connection is asked for a sign of life (asyncpg#519).
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

import asyncpg
import structlog

from budget.core import Budget
from budget.policy import Policy
from budget.postgres_errors import DRIVER_ERRORS, typed_error
from jobs_store.pacing import Backoff
from jobs_store.signals import Channel, Signal
from jobs_store.statements import statement
from jobs_store.subscriptions import Subscriptions, Wakeup

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

_LISTEN: Final = Policy(dependency="postgres", method="listen", limit=float("inf"))
_log = structlog.stdlib.get_logger("hourglass.listener")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLimits:
    """Seconds. A silent connection is noticed within `heartbeat_interval` + `heartbeat`.

    connect: connecting and subscribing to every channel.
    heartbeat: the answer to a sign of life asked for every `heartbeat_interval`.
    """

    connect: float = 5.0
    heartbeat_interval: float = 10.0
    heartbeat: float = 4.0


class Listener:
    """Wakes the subscriptions of this process; after every connect it wakes all, since some were missed.

    channels: those that the process has subscriptions for; what comes on others costs it time for nothing.
    """

    def __init__(
        self,
        dsn: str,
        subscriptions: Subscriptions,
        channels: Iterable[Channel] = tuple(Channel),
        *,
        application_name: str,
        backoff: Backoff,
        limits: ListenerLimits | None = None,
    ) -> None:
        self.heard = 0
        """Notifications received."""
        self.connects = 0
        """How many times it began to listen."""
        self.listening = False
        self._dsn = dsn
        self._subscriptions = subscriptions
        self._channels = tuple(channels)
        self._application_name = application_name
        self._backoff = backoff
        self._limits = limits or ListenerLimits()
        self._failures = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Listens until `stop` is set, whatever becomes of the database."""
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(self._keep_listening(), name="listen")
            await stop.wait()
            listening.cancel()

    async def _keep_listening(self) -> None:
        while True:
            try:
                await self._listen()
            except DRIVER_ERRORS as error:
                _log.warning(
                    "not listening: wake-ups wait for polls",
                    error=type(error).__name__,
                    reason=_reason(error),
                )
            await asyncio.sleep(self._backoff.pause(self._failures))
            self._failures += 1

    async def _listen(self) -> NoReturn:
        """Listens until the connection is lost; always raises."""
        async with self._connection() as connection:
            lost = Wakeup()
            connection.add_termination_listener(lambda _: lost.wake())
            await self._subscribe(connection, budget=Budget.for_work(self._limits.connect))
            self._begin()
            while not await lost.wait(Budget.for_work(self._limits.heartbeat_interval)):
                await _check(connection, budget=Budget.for_work(self._limits.heartbeat))
            raise ConnectionError("the connection has ended")

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        connection = await self._connect(budget=Budget.for_work(self._limits.connect))
        try:
            yield connection
        finally:
            self.listening = False
            connection.terminate()

    async def _connect(self, *, budget: Budget) -> Connection:
        return await asyncpg.connect(
            self._dsn,
            timeout=budget.remaining(),
            command_timeout=self._limits.heartbeat,
            statement_cache_size=0,
            server_settings={"application_name": self._application_name},
        )

    async def _subscribe(self, connection: Connection, *, budget: Budget) -> None:
        async with asyncio.timeout(budget.remaining()):
            for channel in self._channels:
                await connection.add_listener(channel, self._hear)

    def _begin(self) -> None:
        self._failures = 0
        self.connects += 1
        self.listening = True
        _log.info("listening for wake-ups", connects=self.connects)
        self._subscriptions.wake_all()

    def _hear(self, _connection: Any, _pid: int, channel: str, payload: Any) -> None:
        self.heard += 1
        self._subscriptions.wake(Signal(channel=Channel(channel), key=payload))


async def _check(connection: Connection, *, budget: Budget) -> None:
    await connection.execute(statement("check_connection"), timeout=budget.remaining())


def _reason(error: BaseException) -> str:
    typed = typed_error(error, _LISTEN)
    return "DATABASE_ERROR" if typed is None else typed.reason
