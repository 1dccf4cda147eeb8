"""An answer as it grows: who shows it, and the line that tells how far it is."""

from dataclasses import dataclass, field
from typing import Protocol

from hourglass_client import Transcript


class Answer(Protocol):
    """Somewhere to show an answer while it comes."""

    def show(self, transcript: Transcript) -> None:
        """Show the transcript as it is now."""

    def note(self, text: str) -> None:
        """Say something about what happens to the stream."""


@dataclass(slots=True, kw_only=True)
class Progress:
    """Figures of one answer. Times are monotonic seconds; `first_token` is set once it came."""

    created: float
    max_tokens: int
    first_token: float | None = field(default=None, init=False)

    def seen(self, transcript: Transcript, now: float) -> None:
        """Take notice of the first token."""
        if self.first_token is None and transcript.token_count:
            self.first_token = now

    @property
    def time_to_first_token(self) -> float | None:
        """Seconds from the created job to its first token; None before."""
        return None if self.first_token is None else self.first_token - self.created

    def line(self, transcript: Transcript, now: float) -> str:
        """Where the job stands, in one line."""
        parts = [transcript.state_name, f"attempt {transcript.attempt}"]
        parts.append(f"{transcript.token_count} of at most {self.max_tokens} tokens")
        if self.first_token is not None and now > self.first_token:
            parts.append(f"{transcript.token_count / (now - self.first_token):.0f} tokens/s")
        if self.time_to_first_token is not None:
            parts.append(f"first after {self.time_to_first_token:.2f} s")
        return " | ".join([*parts, f"{now - self.created:.1f} s"])
