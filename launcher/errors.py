"""What can go wrong around the services."""

from collections.abc import Mapping, Sequence


class PostgresError(Exception):
    """The database server cannot be started or used."""

    reason = "DATABASE_UNAVAILABLE"


class ProcessFailed(Exception):
    """A process of the stack is not what it should be. The text ends with the end of its log.

    name: the process. tail: the last lines that it wrote.
    """

    reason = "PROCESS_FAILED"

    def __init__(self, name: str, problem: str, tail: Sequence[str]) -> None:
        self.name = name
        self.tail = tuple(tail)
        super().__init__("\n".join([f"{name} {problem}", *(f"  | {line}" for line in self.tail)]))


class ProcessEnded(ProcessFailed):
    """It ended although nobody had asked it to."""

    reason = "PROCESS_ENDED"

    def __init__(self, name: str, exit_code: int, tail: Sequence[str]) -> None:
        self.exit_code = exit_code
        how = f"was killed by signal {-exit_code}" if exit_code < 0 else f"ended with exit code {exit_code}"
        super().__init__(name, how, tail)


class ProcessNotReady(ProcessFailed):
    """It runs, but did not become ready in its time."""

    reason = "PROCESS_NOT_READY"

    def __init__(self, name: str, waited: float, tail: Sequence[str]) -> None:
        super().__init__(name, f"was not ready within {waited:.1f} s", tail)


class AddressTaken(Exception):
    """Addresses cannot be listened on; the text names them by the variables that set them."""

    reason = "ADDRESS_TAKEN"

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        lines = [f"{variable}: {problem}" for variable, problem in problems.items()]
        super().__init__(
            "\n".join([*lines, "set another address there, such as 127.0.0.1:0 for a free port"])
        )
