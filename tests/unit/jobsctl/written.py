"""What a printer writes where nobody watches."""

import io
from collections.abc import Callable

from rich.console import Console

from jobsctl.printer import Printer
from jobsctl.settings import Output


def written(show: Callable[[Printer], None], output: Output = Output.TABLE) -> str:
    """The text on stdout."""
    out = io.StringIO()
    show(
        Printer(
            output, Console(file=out, width=400, highlight=False, markup=False), Console(file=io.StringIO())
        )
    )
    return out.getvalue()
