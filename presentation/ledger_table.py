"""A budget ledger drawn for a terminal: its headline, its bars, and what it had no room for."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hourglass.budget.v1.ledger_pb2 import BudgetLedger
from presentation import waterfall

SHORTEST_BAR: Final = 10
LONGEST_BAR: Final = 40
GAPS: Final = 8


def ledger_lines(ledger: BudgetLedger, *, width: int, unicode: bool) -> Iterator[RenderableType]:
    """Everything that a ledger shows, in order."""
    yield Text(waterfall.headline(ledger))
    yield waterfall_table(ledger, width=width, unicode=unicode)
    if more := waterfall.omitted(ledger):
        yield Text(more, style="yellow")


def waterfall_table(ledger: BudgetLedger, *, width: int, unicode: bool) -> Table:
    """The bars, as wide as `width` characters allow."""
    ink = waterfall.BLOCKS if unicode else waterfall.ASCII
    bar_width = _bar_width(waterfall.rows(ledger, width=1), width)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True)
    for row in waterfall.rows(ledger, width=bar_width, ink=ink):
        style = "green" if row.outcome == "ok" else "yellow"
        table.add_row(row.label, Text(row.bar, style=style), row.figures, Text(row.outcome, style=style))
    table.add_row("", Text(waterfall.scale(ledger, width=bar_width), style="dim"), "", "")
    return table


def _bar_width(rows: Sequence[waterfall.Row], width: int) -> int:
    """What the other columns leave."""
    cells = [(len(row.label), len(row.figures), len(row.outcome)) for row in rows] or [(0, 0, 0)]
    others = sum(max(cell[column] for cell in cells) for column in range(3))
    return min(max(width - others - GAPS, SHORTEST_BAR), LONGEST_BAR)
