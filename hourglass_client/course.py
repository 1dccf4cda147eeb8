"""The course of a watch over all its streams, for both clients. Pure but for the clock."""

from collections.abc import Callable, Collection
from typing import Final

from hourglass.jobs.v1.event_pb2 import JobEvent, JobEventKind
from hourglass.jobs.v1.jobs_service_pb2 import WatchJobRequest, WatchJobResponse
from hourglass_client.errors import HourglassError
from hourglass_client.patience import Patience
from hourglass_client.transcript import Transcript

Kinds = Collection[JobEventKind.ValueType]

OnBreak = Callable[[HourglassError], None]
"""Is told of each stream that ended early, before another is opened; may raise to end the watch."""

_DELTA: Final = JobEventKind.JOB_EVENT_KIND_TOKEN_DELTA


class Course:
    """Where a watch is, what it asks for next, and what it hands to its reader.

    A filter that lets token deltas through is applied here and not by the server: any kind of event can be an
    epoch's first, and say which deltas are void. Without deltas in it the server filters.
    """

    def __init__(
        self,
        job_id: str,
        transcript: Transcript,
        patience: Patience,
        *,
        kinds: Kinds = (),
        on_break: OnBreak | None = None,
    ) -> None:
        self.transcript = transcript
        self.over = False
        self._job_id = job_id
        self._patience = patience
        self._wanted = frozenset(kinds)
        self._on_break = on_break

    @property
    def request(self) -> WatchJobRequest:
        """For the next stream: it goes on after what the transcript holds."""
        asked = () if _DELTA in self._wanted else sorted(self._wanted)
        return WatchJobRequest(job_id=self._job_id, after_sequence=self.transcript.cursor, kinds=asked)

    @property
    def timeout(self) -> float | None:
        """Seconds for the next stream; None: without an end. Raises DeadlineExceeded when nothing is left."""
        return self._patience.timeout()

    def take(self, message: WatchJobResponse) -> JobEvent | None:
        """The event for the reader; None for a sign of life, and for what the reader does not want."""
        self._patience.sign_of_life()
        if not message.HasField("event"):
            return None
        self.transcript.add(message.event)
        return message.event if self._is_wanted(message.event) else None

    def broke(self, error: HourglassError) -> float:
        """Seconds before the next stream. Raises the error when there is no going on."""
        pause = self._patience.after(error)
        if self._on_break is not None:
            self._on_break(error)
        return pause

    def _is_wanted(self, event: JobEvent) -> bool:
        if not self._wanted or event.state_changed.terminal:
            return True
        kind = event.WhichOneof("event")
        return kind is not None and JobEventKind.Value(f"JOB_EVENT_KIND_{kind.upper()}") in self._wanted
