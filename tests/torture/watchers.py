"""Readers of WatchJob that come and go, and what each has seen: once, in order, boundaries obeyed."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import grpc

from hourglass.jobs.v1.event_pb2 import JobEvent
from hourglass.jobs.v1.jobs_service_pb2 import WatchJobRequest
from tests.torture.calls import FIRST_PAUSE, Calls, Refused, identity
from tests.torture.kinds import Kind
from tests.torture.member import Away
from tests.torture.planned_jobs import PlannedWatch
from tests.torture.tally import Tally

EPOCH_BITS: Final = 32
_NUMBERS: Final = (1 << EPOCH_BITS) - 1


class OutOfOrder(Exception):
    """The stream cannot be the job's log."""


class Reading:
    """What one reader knows of one job.

    cursor: where it goes on. kept: the events that stand, without those that died with their worker.
    """

    def __init__(self) -> None:
        self.cursor = 0
        self.kept: list[JobEvent] = []
        self.ended = False
        self.dropped = 0

    def take(self, event: JobEvent) -> None:
        """The next event. Raises OutOfOrder."""
        follows = event.sequence == self.cursor + 1 and self.cursor > 0
        opens = event.sequence & _NUMBERS == 1 and event.sequence > self.cursor
        if not (follows or opens):
            raise OutOfOrder(f"{_place(event.sequence)} came after {_place(self.cursor)}")
        if opens:
            self._open_epoch(event)
        self.cursor = event.sequence
        self.kept.append(event)
        self.ended = event.WhichOneof("event") == "state_changed" and event.state_changed.terminal

    def _open_epoch(self, event: JobEvent) -> None:
        """The first event of an epoch names the last durable one; what lies beyond is void."""
        durable = event.last_durable_sequence
        if durable > self.cursor or durable == 0 < self.cursor:
            raise OutOfOrder(f"{_place(event.sequence)} names {_place(durable)} after {_place(self.cursor)}")
        before = len(self.kept)
        self.kept = [kept for kept in self.kept if kept.sequence <= durable]
        self.dropped += before - len(self.kept)
        if (self.kept[-1].sequence if self.kept else 0) != durable:
            raise OutOfOrder(f"{_place(event.sequence)} names {_place(durable)}, which never came")


def _place(sequence: int) -> str:
    return f"{sequence >> EPOCH_BITS}:{sequence & _NUMBERS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What a reader has at the end, to be compared with the log."""

    tenant: str
    job_id: str
    events: Sequence[JobEvent]


class Watchers:
    """All readers. `finished`: those that have read to the job's end."""

    def __init__(self, calls: Calls, tally: Tally) -> None:
        self.finished: list[Watched] = []
        self._calls = calls
        self._tally = tally

    async def watch(self, tenant: str, job_id: str, planned: PlannedWatch) -> None:
        """Read a job to its first end, moving between servers as planned and whenever a stream breaks."""
        await asyncio.sleep(planned.after)
        reading, server, cuts = Reading(), planned.server, list(planned.cuts)
        while not reading.ended:
            try:
                moved = await self._read(tenant, job_id, reading, server, cuts[0] if cuts else 0)
            except Away:
                moved = False
            except OutOfOrder as error:
                return self._tally.breach(f"a watcher of {job_id}: {error}")
            except Refused as refused:
                return self._tally.breach(f"a watcher of {job_id} at {_place(reading.cursor)}: {refused}")
            if moved:
                cuts.pop(0)
                self._tally.strike(Kind.WATCH_CUT, f"{job_id} at {_place(reading.cursor)}")
            server += 1
            await asyncio.sleep(0 if moved else 2 * FIRST_PAUSE)
        self._tally.note("watchers that read to the end")
        self._tally.notes["live events that died with their worker"] += reading.dropped
        self.finished.append(Watched(tenant=tenant, job_id=job_id, events=tuple(reading.kept)))
        return None

    async def _read(self, tenant: str, job_id: str, reading: Reading, server: int, cut_after: int) -> bool:
        """One stream; True when it was left on purpose after `cut_after` events (0: never)."""
        request = WatchJobRequest(job_id=job_id, after_sequence=reading.cursor)
        call = self._calls.stage.jobs(server).WatchJob(request, metadata=identity(tenant))
        count = 0
        try:
            async for message in call:
                if message.WhichOneof("message") != "event":
                    continue
                reading.take(message.event)
                count += 1
                if count == cut_after and not reading.ended:
                    return True
        except grpc.aio.AioRpcError as error:
            self._calls.check("WatchJob", error)
            return False
        finally:
            call.cancel()
        if not reading.ended:
            self._tally.breach(f"a stream of {job_id} ended well at {_place(reading.cursor)}, before the end")
        return False
