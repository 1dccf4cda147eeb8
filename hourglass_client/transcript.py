"""What a reader of WatchJob knows: the events that stand, the answer so far, where the job stands. Pure."""

from collections.abc import Iterable
from typing import Final, Self

from hourglass.jobs.v1.event_pb2 import JobEvent
from hourglass.jobs.v1.job_pb2 import JobState
from hourglass_client.errors import BrokenStream

EPOCH_BITS: Final = 32


class Transcript:
    """The events of one job as a reader keeps them.

    after: the cursor to begin at; the text is then what came since.
    cursor: the sequence to resume after.
    events: all that stand. Those that died with a worker, before they were written down, are dropped when the
        next epoch's first event says so.
    text: the answer of the present attempt so far. An attempt that starts anew starts with nothing.
    state, cause, attempt, ended: where the job stands; `ended`: the state is terminal.
    """

    def __init__(self, *, after: int = 0) -> None:
        self.cursor = after
        self.state = JobState.JOB_STATE_UNSPECIFIED
        self.cause = ""
        self.attempt = 0
        self.ended = False
        self.events: list[JobEvent] = []
        self.text = ""
        self._deltas: list[JobEvent] = []
        self._is_whole = after == 0

    @classmethod
    def of(cls, events: Iterable[JobEvent]) -> Self:
        """The transcript that these events make."""
        transcript = cls()
        for event in events:
            transcript.add(event)
        return transcript

    @property
    def token_count(self) -> int:
        """Tokens of the answer so far, at least."""
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
                self.state, self.cause = event.state_changed.state, event.state_changed.cause
                self.ended = event.state_changed.terminal
            case "attempt_started":
                self.attempt = event.attempt_number
                self._start_anew()
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

    def _start_anew(self) -> None:
        self._deltas.clear()
        self.text = ""
        self._is_whole = True

    def _append(self, event: JobEvent) -> None:
        offset = event.token_delta.offset
        if self._deltas or self._is_whole:
            first = self._deltas[0].token_delta.offset if self._deltas else 0
            if offset != first + len(self.text):
                raise BrokenStream(
                    f"a delta for offset {offset} came after {first + len(self.text)} characters"
                )
        self._deltas.append(event)
        self.text += event.token_delta.text

    def _forget_beyond(self, durable: int) -> None:
        """What a worker had not written down when it died, nobody will hear again."""
        if self.cursor > durable:
            self.events = [event for event in self.events if event.sequence <= durable]
            self._deltas = [event for event in self._deltas if event.sequence <= durable]
            self.text = "".join(event.token_delta.text for event in self._deltas)


def _opens_epoch(event: JobEvent) -> bool:
    return event.last_durable_sequence > 0 and event.sequence & (2**EPOCH_BITS - 1) == 1
