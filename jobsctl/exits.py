"""How a command ends: its exit code, and what it says on stderr."""

from collections.abc import Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of every command."""

    OK = 0
    REFUSED = 1
    """The service said no, the job did not succeed, or an invariant is broken."""
    USAGE = 2
    UNAVAILABLE = 3
    """Nobody answered in time: the same command may work later."""
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class Failure(Exception):
    """A command ends badly. `reason`: UPPER_SNAKE, for programs. `details`: more lines, such as fields."""

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        details: Sequence[str] = (),
        code: ExitCode = ExitCode.REFUSED,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.details = tuple(details)
        self.code = code

    def __str__(self) -> str:
        return "\n".join([f"{self.reason}: {self.args[0]}", *(f"  {line}" for line in self.details)])


class ReaderGone(Exception):
    """Whoever read stdout has seen enough, as `head` has."""
