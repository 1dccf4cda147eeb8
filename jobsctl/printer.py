"""What a command writes: tables for people or proto JSON for programs on stdout, remarks on stderr."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segments
from rich.table import Table
from rich.text import Text

from hourglass.budget.v1.ledger_pb2 import BudgetLedger
from jobsctl.exits import ReaderGone
from jobsctl.settings import Output
from presentation.ledger_table import ledger_lines
from presentation.values import printable

INDENT: Final = 2
WIDTH_OF_FILES: Final = 400
WIDTH_OF_PICTURES: Final = 110


class Printer:
    """Writes to two consoles. Honours NO_COLOR; what is no terminal gets whole lines and no colour."""

    def __init__(self, output: Output, out: Console | None = None, errors: Console | None = None) -> None:
        self.json = output is Output.JSON
        self.out = out or _console()
        self.errors = errors or _console(stderr=True)

    @property
    def interactive(self) -> bool:
        """Whether somebody watches, so that a line may be drawn over."""
        return self.out.is_terminal and not self.out.is_dumb_terminal

    @property
    def picture_width(self) -> int:
        """Characters that a drawing may take."""
        return min(self.out.width, WIDTH_OF_PICTURES)

    def message(self, message: Message) -> None:
        """A message as proto JSON, for programs."""
        self.object(as_json(message))

    def object(self, value: Mapping[str, Any]) -> None:
        """A JSON object over several lines."""
        self._raw(json.dumps(value, indent=2, ensure_ascii=False))

    def json_line(self, message: Message) -> None:
        """A message as one line of JSON: the element of a stream."""
        self._raw(json.dumps(as_json(message), ensure_ascii=False, separators=(",", ":")))

    def line(self, *values: str, style: str = "") -> None:
        """One line."""
        self.out.print(Text(printable(" ".join(values)), style=style), soft_wrap=True)

    def heading(self, text: str) -> None:
        """A new part."""
        self.out.print()
        self.out.print(Text(printable(text), style="bold"), soft_wrap=True)

    def show(self, what: RenderableType) -> None:
        """A part of a picture, indented."""
        self._print(Padding(what, (0, 0, 0, INDENT), expand=False))

    def facts(self, facts: Mapping[str, str]) -> None:
        """What is known, one line each; what is empty is left out."""
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="cyan", no_wrap=True)
        grid.add_column(overflow="fold")
        for label, value in facts.items():
            if value:
                grid.add_row(label, Text(printable(value)))
        self._print(grid)

    def table(
        self, columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()
    ) -> None:
        """Rows under a header; the columns in `right` are figures."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            side = "right" if column in right else "left"
            table.add_column(column.upper(), justify=side, overflow="fold")  # type: ignore[arg-type] # a literal
        for row in rows:
            table.add_row(*(Text(printable(cell)) for cell in row))
        self._print(self._unfolded(table))

    @contextmanager
    def waiting(self, text: str) -> Iterator[Callable[[str], None]]:
        """While something is waited for: one line on stderr that is drawn over, for whoever watches.

        What is handed out changes the line; without a terminal it does nothing.
        """
        if not self.errors.is_terminal or self.errors.is_dumb_terminal or not self.out.is_terminal:
            yield _nothing
            return
        with self.errors.status(Text(printable(text)), spinner_style="cyan") as status:
            yield lambda text: status.update(Text(printable(text)))

    def remark(self, text: str) -> None:
        """Something about the command itself, on stderr."""
        self.errors.print(Text(printable(text), style="yellow"), soft_wrap=True)

    def ledgers(self, ledgers: Iterable[BudgetLedger]) -> None:
        """Where the time of each call went, on stderr."""
        unicode = self.errors.encoding.lower().startswith("utf")
        width = min(self.errors.width, WIDTH_OF_PICTURES)
        for ledger in ledgers:
            for part in ledger_lines(ledger, width=width, unicode=unicode):
                self.errors.print(part)

    def _unfolded(self, table: Table) -> RenderableType:
        """One line a row: a terminal that is too narrow breaks it where it ends, and ids stay whole."""
        options = self.out.options.update(width=max(self.out.width, WIDTH_OF_FILES))
        width = max(self.out.width, Measurement.get(self.out, options, table).maximum)
        return Segments(self.out.render(table, options.update(width=width)))

    def _print(self, what: RenderableType) -> None:
        """Without the blanks that fill the last column."""
        with self.out.capture() as captured:
            self.out.print(what, crop=False, soft_wrap=isinstance(what, Segments))
        self._raw("\n".join(line.rstrip() for line in captured.get().splitlines()))

    def _raw(self, text: str) -> None:
        self.out.file.write(f"{text}\n")
        self.out.file.flush()


def as_json(message: Message) -> dict[str, Any]:
    """Proto JSON under the contract's own field names, with the empty fields of lists and scalars."""
    return MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)


def _nothing(_text: str) -> None:
    """Nobody watches."""


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        raise ReaderGone


def _console(*, stderr: bool = False) -> Console:
    """As wide as the terminal; a file takes whole lines."""
    console = _Console(highlight=False, stderr=stderr, markup=False, emoji=False)
    if console.is_terminal:
        return console
    stream = sys.stderr if stderr else sys.stdout
    return _Console(highlight=False, file=stream, width=WIDTH_OF_FILES, markup=False, emoji=False)
