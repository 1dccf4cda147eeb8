"""What is written fits whoever reads it: a terminal of any width, a file, a program."""

from io import StringIO

import pytest
from rich.console import Console

from jobsctl.printer import Printer
from jobsctl.settings import Output

JOB = "01a22f7a-1d3f-72d6-aa59-942a455ba1f8"


def console(*, width: int = 80, terminal: bool = True) -> Console:
    return Console(file=StringIO(), width=width, force_terminal=terminal, no_color=True, highlight=False)


def written(on: Console) -> str:
    assert isinstance(on.file, StringIO)
    return on.file.getvalue()


@pytest.mark.parametrize("width", [20, 60, 200])
def test_a_row_is_a_line_however_narrow_the_terminal_is(width: int) -> None:
    out = console(width=width)
    Printer(Output.TABLE, out, console()).table(("job", "state", "model"), [(JOB, "RUNNING", "a-model")])
    assert f"{JOB}  RUNNING  a-model" == written(out).splitlines()[1]


def test_whoever_watches_sees_what_is_waited_for_on_stderr() -> None:
    out, errors = console(), console()
    with Printer(Output.TABLE, out, errors).waiting("a job") as tell:
        tell("a job is RUNNING")
    assert "a job" in written(errors)
    assert "" == written(out)


@pytest.mark.parametrize(
    ("out", "errors"),
    [(console(terminal=False), console()), (console(), console(terminal=False))],
    ids=["stdout goes elsewhere", "stderr goes elsewhere"],
)
def test_nothing_is_drawn_over_where_nobody_watches(out: Console, errors: Console) -> None:
    with Printer(Output.TABLE, out, errors).waiting("a job") as tell:
        tell("a job is RUNNING")
    assert ("", "") == (written(out), written(errors))
