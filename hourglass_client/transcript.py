"""What a reader of WatchJob knows: the answer so far, the cursor, where the job stands. Pure."""

from collections.abc import Iterable
from typing import Final, Self

from hourglass.jobs.v1.event_pb2 import JobEvent
from hourglass.jobs.v1.job_pb2 import JobState

EPOCH_BITS: Final = 32


class BrokenStream(Exception):
    """The stream repeated, skipped or contradicted something."""

    reason = "BROKEN_STREAM"


class Transcript:
    """The events of one job as a reader keeps them.

    cursor: the sequence to resume after. ended: the terminal event has come.
    """

    def __init__(self) -> None:
        self.cursor = 0
        self.state = JobState.JOB_STATE_UNSPECIFIED
        self.attempt = 0
        self.ended = False
        self.events: list[JobEvent] = []
        self._deltas: list[JobEvent] = []

    @classmethod
    def of(cls, events: Iterable[JobEvent]) -> Self:
        """The transcript that these events make."""
        transcript = cls()
        for event in events:
            transcript.add(event)
        return transcript

    @property
    def text(self) -> str:
        """The answer of the present attempt so far."""
        return "".join(event.token_delta.text for event in self._deltas)

    @property
    def token_count(self) -> int:
        """Tokens of the answer so far."""
        return sum(event.token_delta.token_count for event in self._deltas)

    @property
    def state_name(self) -> str:
        """The state without its prefix."""
        return JobState.Name(self.state).removeprefix("JOB_STATE_")

    def add(self, event: JobEvent) -> None:
        """Take in the next event. Raises BrokenStream when it cannot be the next."""
        if event.sequence <= self.cursor:
            raise BrokenStream(f"event {event.sequence} came after {self.cursor}")
        if _opens_epoch(event):
            self._forget_beyond(event.last_durable_sequence)
        self.cursor = event.sequence
        self.events.append(event)
        match event.WhichOneof("event"):
            case "state_changed":
                self.state = event.state_changed.state
                self.ended = event.state_changed.terminal
            case "attempt_started":
                self.attempt = event.attempt_number
                self._deltas.clear()
            case "token_delta":
                self._append(event)
            case _:
                pass

    def up_to_token(self, count: int) -> Self:
        """The transcript as it was when `count` tokens of its present attempt had come."""
        beginning: list[JobEvent] = []
        answer = {event.sequence for event in self._deltas}
        tokens = 0
        for event in self.events:
            if tokens >= count:
                break
            beginning.append(event)
            tokens += event.token_delta.token_count if event.sequence in answer else 0
        return type(self).of(beginning)

    def _append(self, event: JobEvent) -> None:
        if event.token_delta.offset != len(self.text):
            raise BrokenStream(
                f"a delta for offset {event.token_delta.offset} came after {len(self.text)} characters"
            )
        self._deltas.append(event)

    def _forget_beyond(self, durable: int) -> None:
        """What a worker had not written down when it died, nobody will hear again."""
        self.events = [event for event in self.events if event.sequence <= durable]
        self._deltas = [event for event in self._deltas if event.sequence <= durable]


def _opens_epoch(event: JobEvent) -> bool:
    return event.last_durable_sequence > 0 and event.sequence & (2**EPOCH_BITS - 1) == 1
