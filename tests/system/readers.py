"""Readers of one job that come, leave and come again at random moments, and what each keeps meanwhile.

They are of every kind that a caller can be: on the generated stub alone, by the rules of the contract; with
`hourglass_client`, asyncio and blocking; with all events, and with states only; on connections that hold, and
on such that break.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import grpc

from hourglass.jobs.v1.event_pb2 import JOB_EVENT_KIND_STATE_CHANGED, JobEvent
from hourglass.jobs.v1.jobs_service_pb2 import WatchJobRequest
from hourglass.jobs.v1.jobs_service_pb2_grpc import JobServiceStub
from hourglass_client import AsyncClient, Client, DeadlineExceeded, HourglassError, Transcript
from hourglass_client.patience import RESUME
from tests.torture.watchers import Reading

STATES = (JOB_EVENT_KIND_STATE_CHANGED,)
FIRST_COMING = 0.5
SERVERS = 2
SHORTEST_STAY = 0.05
LONGEST_STAY = 0.3
LONGEST_PAUSE = 0.15
MOST_EVENTS = 40
GOES_BACK = 0.1
FARTHEST_BACK = 60
STARTS_AGAIN = 0.02


class Phase(NamedTuple):
    """What the job is at: which attempt, and whether its worker lives. (0, False): it waits for the first."""

    attempt: int
    served: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """A moment at which a stream was opened. cursor: where it goes on. front: what anybody had seen then."""

    phase: Phase
    cursor: int
    front: int


class Comings:
    """All moments, and how far the job is as its readers have seen."""

    def __init__(self) -> None:
        self.moments: list[Coming] = []
        self.broken = 0
        """Streams that broke under their reader."""
        self.front = 0
        self.over = False
        """Somebody has seen the job's end."""
        self.worker = ""
        """Who runs the present attempt."""
        self.fronts_at_deaths: list[int] = []
        self._attempt = 0

    @property
    def phase(self) -> Phase:
        """What the job is at."""
        return Phase(self._attempt, self._attempt > len(self.fronts_at_deaths))

    @property
    def phases(self) -> Counter[Phase]:
        """How many moments fell into each."""
        return Counter(moment.phase for moment in self.moments)

    def came(self, cursor: int) -> None:
        """A stream is opened now."""
        self.moments.append(Coming(phase=self.phase, cursor=cursor, front=self.front))

    def saw(self, event: JobEvent) -> None:
        """Somebody got an event."""
        self.front = max(self.front, event.sequence)
        self.over = self.over or event.state_changed.terminal
        if event.HasField("attempt_started") and event.attempt_number > self._attempt:
            self._attempt, self.worker = event.attempt_number, event.attempt_started.worker_id

    def died(self) -> None:
        """The worker of the present attempt is dead."""
        self.fronts_at_deaths.append(self.front)


class Reader(ABC):
    """One reader of one job. states_only: it asks for changes of state and nothing else."""

    def __init__(self, job_id: str, comings: Comings, *, states_only: bool = False) -> None:
        self.job_id = job_id
        self.comings = comings
        self.states_only = states_only
        self.kinds = STATES if states_only else ()

    @property
    @abstractmethod
    def kept(self) -> Sequence[JobEvent]:
        """The events that stand."""

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether the job's end has come."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The answer, as this reader has it."""

    @abstractmethod
    def go_back(self, count: int) -> None:
        """Know the first `count` of what is kept, and nothing else."""

    @abstractmethod
    async def read(self, server: int, *, most: int, within: float) -> None:
        """Open a stream at a server, and leave it after `most` events or `within` seconds, or when the job
        has ended."""


class StubReader(Reader):
    """The generated stub, and the rules that the contract states."""

    def __init__(
        self, channels: Sequence[grpc.aio.Channel], job_id: str, comings: Comings, **how: Any
    ) -> None:
        super().__init__(job_id, comings, **how)
        self._stubs: Sequence[Any] = [JobServiceStub(channel) for channel in channels]
        self._reading = self._of(())

    @property
    def kept(self) -> Sequence[JobEvent]:
        return self._reading.kept

    @property
    def ended(self) -> bool:
        return self._reading.ended

    @property
    def text(self) -> str:
        attempt = self.kept[-1].attempt_number or max(event.attempt_number for event in self.kept)
        return "".join(event.token_delta.text for event in self.kept if event.attempt_number == attempt)

    def go_back(self, count: int) -> None:
        self._reading = self._of(self.kept[:count])

    async def read(self, server: int, *, most: int, within: float) -> None:
        cursor = self._reading.cursor
        request = WatchJobRequest(job_id=self.job_id, after_sequence=cursor, kinds=self.kinds)
        self.comings.came(cursor)
        call = self._stubs[server].WatchJob(request)
        try:
            async with asyncio.timeout(within):
                await self._take(call, most)
        except TimeoutError:
            pass
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            self.comings.broken += 1
        finally:
            call.cancel()

    async def _take(self, call: AsyncIterator[Any], most: int) -> None:
        async for message in call:
            if message.HasField("event"):
                self._reading.take(message.event)
                self.comings.saw(message.event)
                most -= 1
            if most == 0:
                return
        assert self.ended, "a stream ended well before the job did"

    def _of(self, events: Sequence[JobEvent]) -> Reading:
        reading = StatesReading() if self.states_only else Reading()
        for event in events:
            reading.take(event)
        return reading


class StatesReading(Reading):
    """Between two states others lie, which this reader did not ask for. A state that was told never dies."""

    def take(self, event: JobEvent) -> None:
        assert event.HasField("state_changed"), "nobody asked for it"
        assert self.cursor < event.sequence
        assert event.last_durable_sequence == 0 or self.cursor <= event.last_durable_sequence
        self.cursor = event.sequence
        self.kept.append(event)
        self.ended = event.state_changed.terminal


class TranscriptReader(Reader):
    """What `hourglass_client` keeps."""

    def __init__(self, job_id: str, comings: Comings, **how: Any) -> None:
        super().__init__(job_id, comings, **how)
        self.transcript = Transcript()

    @property
    def kept(self) -> Sequence[JobEvent]:
        return self.transcript.events

    @property
    def ended(self) -> bool:
        return self.transcript.ended

    @property
    def text(self) -> str:
        return self.transcript.text

    def go_back(self, count: int) -> None:
        self.transcript = Transcript.of(self.kept[:count])

    def broke(self, error: HourglassError) -> None:
        """A stream broke or, for RESUME, was ended because its time is over."""
        self.comings.broken += error.reason != RESUME


class AsyncReader(TranscriptReader):
    """`AsyncClient`; it leaves by a cancel."""

    def __init__(self, clients: Sequence[AsyncClient], job_id: str, comings: Comings, **how: Any) -> None:
        super().__init__(job_id, comings, **how)
        self._clients = clients

    async def read(self, server: int, *, most: int, within: float) -> None:
        self.comings.came(self.transcript.cursor)
        watch = self._clients[server].watch(
            self.job_id, transcript=self.transcript, kinds=self.kinds, on_break=self.broke
        )
        try:
            async with asyncio.timeout(within), watch as events:
                async for event in events:
                    self.comings.saw(event)
                    most -= 1
                    if most == 0:
                        return
        except TimeoutError:
            pass


class BlockingReader(TranscriptReader):
    """`Client`, in a thread; it leaves by its deadline."""

    def __init__(self, clients: Sequence[Client], job_id: str, comings: Comings, **how: Any) -> None:
        super().__init__(job_id, comings, **how)
        self._clients = clients

    async def read(self, server: int, *, most: int, within: float) -> None:
        await asyncio.to_thread(self._read, server, most, within)

    def _read(self, server: int, most: int, within: float) -> None:
        self.comings.came(self.transcript.cursor)
        watch = self._clients[server].watch(
            self.job_id,
            transcript=self.transcript,
            kinds=self.kinds,
            timeout=within,
            on_break=self.broke,
        )
        try:
            with watch as events:
                for event in events:
                    self.comings.saw(event)
                    most -= 1
                    if most == 0:
                        return
        except DeadlineExceeded:
            pass


async def come_and_go(reader: Reader, random: Random) -> None:
    """Read a job to its end in many streams, now and then from an earlier place on."""
    await asyncio.sleep(random.uniform(0.0, FIRST_COMING))
    while not reader.ended:
        # Without a worker they keep what they have: the next epoch is about text that died.
        if reader.comings.phase.served and not reader.comings.over:
            go_back(reader, random)
        most, within = random.randint(1, MOST_EVENTS), random.uniform(SHORTEST_STAY, LONGEST_STAY)
        await reader.read(random.randrange(SERVERS), most=most, within=within)
        await asyncio.sleep(random.uniform(0.0, LONGEST_PAUSE))


def go_back(reader: Reader, random: Random) -> None:
    """Now and then forget something, or everything."""
    if random.random() < STARTS_AGAIN:
        reader.go_back(0)
    elif random.random() < GOES_BACK:
        reader.go_back(max(0, len(reader.kept) - random.randint(0, FARTHEST_BACK)))


async def log_of(client: AsyncClient, job_id: str) -> Sequence[JobEvent]:
    """What the store holds of an ended job."""
    async with client.watch(job_id) as events:
        return [event async for event in events]
