"""Renews the leases of all runs in one statement, from a thread and a connection that the work cannot starve.

A blocked event loop, a busy pool or an acceptance that waits for a lock delays no renewal (river#682,
pgqueuer#430). An expired lease orders no stop: only the row's own word does, that the token is gone or a
cancel is wanted.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, assert_never

import structlog

from budget.core import Budget
from jobs_store.endings import Verdict
from jobs_store.pacing import pause
from jobs_store.runs import RunStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from budget.postgres import Database
    from jobs_store.creation import PolicyOf
    from worker.lease import Lease, Leases

_SLACK: Final = 1.0
_log = structlog.stdlib.get_logger("hourglass.worker.renewal")


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewalPace:
    """Seconds. lease: what a renewal asks for. interval: between two of all leases. limit: of one round.

    retry: until rows that could not be locked, and statements that failed, are tried again.
    """

    lease: float = 30.0
    interval: float = 8.0
    retry: float = 0.5
    limit: float = 5.0


class Renewal:
    """One round of renewal at a time, in whatever loop it runs."""

    def __init__(self, leases: Leases, store: RunStore, pace: RenewalPace) -> None:
        self._leases = leases
        self._store = store
        self._pace = pace
        self._all_due = 0.0
        self._failing = False

    async def run(self, stop: asyncio.Event, woken: asyncio.Event) -> None:
        """Renews until `stop` is set; `woken` ends a pause."""
        while not stop.is_set():
            woken.clear()
            await pause(await self._round(), woken)

    async def _round(self) -> float:
        """Renews what is due; answers the seconds until the next round."""
        urgent, sent_at = self._leases.take_urgent(), time.monotonic()
        everything = sent_at >= self._all_due
        due = self._leases.all() if everything else urgent
        again = await self._renew(due, sent_at) if due else []
        if again is None:
            self._leases.put_off(due)
            return self._pace.retry
        if everything:
            self._all_due = sent_at + self._pace.interval
        self._leases.put_off(again)
        return min(self._until_all(), self._pace.retry) if again else self._until_all()

    def _until_all(self) -> float:
        return max(self._all_due - time.monotonic(), 0.001)

    async def _renew(self, due: Sequence[Lease], sent_at: float) -> list[Lease] | None:
        """Those whose rows could not be locked; None when the statement failed."""
        budget = Budget.for_work(self._pace.limit)
        try:
            verdicts = await self._store.renew(
                [lease.held for lease in due], lease=self._pace.lease, budget=budget
            )
        except Exception as error:  # noqa: BLE001 - whatever it was, the leases run on and are tried again
            self._report(error, due)
            return None
        self._failing = False
        heard = zip(due, verdicts, strict=True)
        return [lease for lease, verdict in heard if not _heard(lease, verdict, sent_at)]

    def _report(self, error: Exception, due: Sequence[Lease]) -> None:
        log = _log.debug if self._failing else _log.warning
        self._failing = True
        log(
            "leases were not renewed",
            runs=len(due),
            oldest=round(max(lease.age() for lease in due), 1),
            error=type(error).__name__,
            reason=getattr(error, "reason", "INTERNAL"),
        )


def _heard(lease: Lease, verdict: Verdict, sent_at: float) -> bool:
    """Hands a verdict on; False when the row could not be locked."""
    match verdict:
        case Verdict.OK:
            lease.prove(sent_at)
        case Verdict.HELD | Verdict.CANCEL_REQUESTED:
            lease.prove(sent_at)
            lease.tell(verdict)
        case Verdict.LEASE_LOST:
            lease.tell(verdict)
        case Verdict.BUSY:
            return False
        case Verdict.NOT_DUE:
            raise ValueError("a renewal is always due")
        case _:
            assert_never(verdict)
    return True


class RenewalThread:
    """The thread: its own event loop, its own connection."""

    def __init__(self, database: Database, leases: Leases, policy_of: PolicyOf, pace: RenewalPace) -> None:
        """`database` is not connected yet: its connection belongs to the thread's loop."""
        self._database = database
        self._leases = leases
        self._policy_of = policy_of
        self._pace = pace
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._woken: asyncio.Event

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Future[None]]:
        """Renews during its body. The future that it gets ends when the thread does, with what it died of."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ready = threading.Event()
        thread = threading.Thread(
            target=self._run, args=(asyncio.get_running_loop(), ended, ready), name="renewal", daemon=True
        )
        thread.start()
        await asyncio.to_thread(ready.wait)
        try:
            yield ended
        finally:
            self._call(self._end_it)
            await asyncio.wait({ended}, timeout=self._pace.limit + 2 * _SLACK)

    def _run(
        self, owner: asyncio.AbstractEventLoop, ended: asyncio.Future[None], ready: threading.Event
    ) -> None:
        error: Exception | None = None
        try:
            asyncio.run(self._main(ready))
        except Exception as crash:  # noqa: BLE001 - the owner raises it
            error = crash
        finally:
            ready.set()
            if not owner.is_closed():
                owner.call_soon_threadsafe(_end, ended, error)

    async def _main(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop, self._woken = stop, woken = asyncio.Event(), asyncio.Event()
        self._leases.wake_by(partial(self._call, woken.set))
        ready.set()
        database = self._database
        try:
            await self._connect(database, stop, woken)
            store = RunStore(database, self._policy_of)
            await Renewal(self._leases, store, self._pace).run(stop, woken)
        finally:
            await database.close(Budget.for_work(_SLACK))

    async def _connect(self, database: Database, stop: asyncio.Event, woken: asyncio.Event) -> None:
        while not stop.is_set() and not database.connected:
            try:
                await database.connect(Budget.for_work(self._pace.limit))
            except Exception as error:  # noqa: BLE001 - the main loop says so too; tried until it works
                _log.debug("the renewal is not connected", error=type(error).__name__)
                woken.clear()
                await pause(self._pace.retry, woken)

    def _call(self, action: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the thread has ended meanwhile
            self._loop.call_soon_threadsafe(action)

    def _end_it(self) -> None:
        self._stop.set()
        self._woken.set()


def _end(ended: asyncio.Future[None], error: Exception | None) -> None:
    if ended.done():
        return
    if error is None:
        ended.set_result(None)
    else:
        ended.set_exception(error)
