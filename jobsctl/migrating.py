"""The one part that opens Postgres: the schema, brought up to date or compared with the files."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from budget.core import Budget
from budget.errors import BudgetError
from jobsctl.exits import ExitCode, Failure
from jobsctl.printer import Printer
from jobsctl.settings import Output
from migrations.errors import MigrationError
from migrations.runner import Status, migrate, status

DEFAULT_LIMIT: Final = 300.0
_COLUMNS: Final = ("migration", "state", "applied")


def bring_up_to_date(dsn: str, output: Output, *, timeout: float | None) -> None:
    """Apply what is missing, as the owner. Raises Failure."""
    applied = _done(migrate(dsn, budget=_budget(timeout)))
    printer = Printer(output)
    if printer.json:
        printer.object({"applied": [str(migration) for migration in applied]})
        return
    for migration in applied:
        printer.line(f"applied {migration}")
    printer.line(f"up to date: {len(applied)} applied" if applied else "up to date: nothing was missing")


def show_status(dsn: str, output: Output, *, timeout: float | None) -> None:
    """Tell what was applied and what is missing. Raises Failure when something is."""
    found = _done(status(dsn, budget=_budget(timeout)))
    printer = Printer(output)
    rows = _rows(found)
    if printer.json:
        printer.object({"migrations": [_object(row) for row in rows]})
    else:
        printer.table(_COLUMNS, rows)
    if found.pending:
        raise Failure("MIGRATIONS_PENDING", f"{len(found.pending)} are missing: run `jobsctl migrate`")


def _done(work: Any) -> Any:
    try:
        return asyncio.run(work)
    except MigrationError as error:
        raise Failure(error.reason, str(error)) from error
    except BudgetError as error:
        cause = f" ({error.__cause__})" if error.__cause__ else ""
        raise Failure(error.reason, f"{error}{cause}", code=ExitCode.UNAVAILABLE) from error


def _budget(timeout: float | None) -> Budget:
    return Budget.for_work(DEFAULT_LIMIT if timeout is None else timeout)


def _rows(found: Status) -> list[Sequence[str]]:
    applied = [
        (f"{one.version:04}_{one.name}", "applied", f"{one.applied_time:%Y-%m-%d %H:%M:%SZ}")
        for one in found.applied
    ]
    return [*applied, *((str(one), "missing", "") for one in found.pending)]


def _object(row: Sequence[str]) -> Mapping[str, str]:
    return dict(zip(_COLUMNS, row, strict=True))
