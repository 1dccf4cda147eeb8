"""`python -m jobs_store.invariants.page` prints docs/invariants.md."""

from collections.abc import Sequence
from typing import Final

from jobs_store.invariants.paging import PAGE_SIZES
from jobs_store.invariants.registry import INVARIANTS, Invariant, Kind, Scope

_HEAD: Final = """\
# Invariants

What holds at every commit, whoever does what at the same time. `AdminService.Verify` checks it on the live
database and names what breaks it; `jobsctl verify` shows that and ends with an exit code; the tests of the
store check it after every operation. This page is made by `python -m jobs_store.invariants.page` from the
statements in `jobs_store/invariants`.

- Names do not change: a program can switch on them.
- A page is one statement over a range of rows, so it sees one moment: work that goes on meanwhile is no
  violation. It takes no lock, waits for nobody and reads by index; it has 30 s (`postgres.verify` in
  `HOURGLASS_JOBS_POLICIES`). A page that takes longer is tried again in smaller ones; a single row, or
  tenant, that takes longer is named as unchecked.
- It runs as `hourglass_readonly`, which sees all tenants and can change nothing.
- A violation is a bug, or somebody's hand in the database. Nothing is repaired here.
"""
_SECTIONS: Final = (
    (Scope.TENANTS, "Tenants and their money", "A page is all that {size} tenants have."),
    (Scope.LANES, "Lanes", "One page."),
    (Scope.JOBS, "Jobs", "A page is a range of ids with {size} jobs in it."),
    (Scope.UNFINISHED_JOBS, "Unfinished jobs", "A page is a range of ids with {size} unfinished jobs in it."),
    (Scope.CALLS, "Short calls", "A page is a range of ids with {size} calls in it."),
)
_IN_TIME: Final = """\
## What a reaper does in time

These hold while a reaper runs somewhere. A violation says that none does, or that it cannot keep up. Long
is two rounds of the reaper and its wait after a reconnect (`HOURGLASS_JOBS_REAP_INTERVAL`,
`HOURGLASS_JOBS_REAP_WAIT`): 20 s unless set.
"""


def as_markdown() -> str:
    """The page."""
    sections = [_section(scope, title, about) for scope, title, about in _SECTIONS]
    in_time = [each for each in INVARIANTS.values() if each.kind is Kind.IN_TIME]
    return "\n".join((_HEAD, *sections, _IN_TIME, _table(in_time)))


def _section(scope: Scope, title: str, about: str) -> str:
    found = [each for each in INVARIANTS.values() if each.scope is scope and each.kind is Kind.ALWAYS]
    size = f"{PAGE_SIZES[scope]:,}"
    return f"## {title}\n\n{about.format(size=size)}\n\n{_table(found)}"


def _table(invariants: Sequence[Invariant]) -> str:
    rows = [
        f"| `{each.name}` | {each.promise} | {', '.join(f'`{table}`' for table in each.tables)} |\n"
        for each in invariants
    ]
    return "| name | what holds | tables |\n|---|---|---|\n" + "".join(rows)


if __name__ == "__main__":
    print(as_markdown(), end="")  # noqa: T201 - this is the output
