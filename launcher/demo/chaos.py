"""CHAOS=1: the worker is killed in mid-answer, and another one finishes the job."""

import signal
from collections.abc import Mapping, Sequence
from typing import Final

from hourglass.jobs.v1.event_pb2 import JobEvent
from hourglass.jobs.v1.job_pb2 import AttemptOutcome, JobState
from hourglass_client.transcript import EPOCH_BITS, Transcript
from launcher.demo.answer import Answer
from launcher.stack import Stack

WORKERS: Final[Sequence[str]] = ("worker-1", "worker-2")

# A dead worker is noticed when its lease ends: half a minute by default, and nobody wants to watch that.
QUICK_REAPING: Final[Mapping[str, str]] = {"REAP_INTERVAL": "0.5", "REAP_WAIT": "0"}
QUICK_LEASES: Final[Mapping[str, str]] = {
    **QUICK_REAPING,
    "LEASE": "3",
    "CUT_OFF": "2.4",
    "RENEWAL_INTERVAL": "0.5",
    "RENEWAL_LIMIT": "0.5",
    "RENEWAL_RETRY": "0.1",
}


class Killer:
    """Kills the worker that runs a job once `after` tokens have come, and tells what follows.

    killed: its name; empty as long as nobody was killed.
    """

    def __init__(self, stack: Stack, answer: Answer, *, after: int) -> None:
        self.killed = ""
        self._stack = stack
        self._answer = answer
        self._after = after
        self._tokens = 0

    def see(self, transcript: Transcript) -> None:
        """The next event is in the transcript."""
        event = transcript.events[-1]
        if self.killed:
            self._tell(event, transcript)
        elif transcript.token_count >= self._after and not transcript.ended:
            self._kill(transcript)
        self._tokens = transcript.token_count

    def _kill(self, transcript: Transcript) -> None:
        started = [event for event in transcript.events if event.HasField("attempt_started")]
        self.killed = started[-1].attempt_started.worker_id
        child = self._stack.children[self.killed]
        child.signal(signal.SIGKILL)
        self._answer.note(
            f"{self.killed} (process {child.process_id}) killed after {transcript.token_count} tokens; "
            f"the stream stays open at sequence {transcript.cursor}"
        )

    def _tell(self, event: JobEvent, transcript: Transcript) -> None:
        if event.last_durable_sequence:
            self._answer.note(self._boundary(event, lost=max(0, self._tokens - transcript.token_count)))
        if event.HasField("attempt_ended"):
            ended = event.attempt_ended
            outcome = AttemptOutcome.Name(ended.outcome).removeprefix("ATTEMPT_OUTCOME_")
            self._answer.note(f"attempt {event.attempt_number} ended {outcome} ({ended.cause})")
        if event.HasField("attempt_started"):
            worker = event.attempt_started.worker_id
            self._answer.note(f"{worker} makes attempt {event.attempt_number}")

    @staticmethod
    def _boundary(event: JobEvent, *, lost: int) -> str:
        epoch = event.sequence >> EPOCH_BITS
        changed = event.state_changed
        state = JobState.Name(changed.state).removeprefix("JOB_STATE_")
        what = f"{state} ({changed.cause}), " if changed.cause else ""
        died = f", {lost} tokens beyond it died with their worker" if lost else ""
        return f"epoch {epoch}: {what}last durable sequence {event.last_durable_sequence}{died}"
