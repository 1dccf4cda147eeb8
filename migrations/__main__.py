"""`python -m migrations`: bring the database of a DSN up to date, or tell how far it is."""

import argparse
import asyncio
import logging
import os
import sys

from budget.core import Budget
from budget.errors import BudgetError
from migrations.errors import MigrationError
from migrations.runner import Status, migrate, status

DEFAULT_LIMIT = 300.0
UP_TO_DATE, BEHIND, FAILED = 0, 1, 3


def main(arguments: list[str]) -> int:
    """Run the command and return its exit code: 0 up to date, 1 behind (--status), 2 usage, 3 failed."""
    options = _parser().parse_args(arguments)
    if not options.dsn:
        _parser().error("give --dsn, or set DATABASE_URL")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        return asyncio.run(
            _run(options.dsn, only_status=options.status, budget=Budget.for_work(options.limit))
        )
    except (MigrationError, BudgetError) as error:
        cause = (
            "" if error.__cause__ is None or str(error.__cause__) in str(error) else f" ({error.__cause__})"
        )
        print(f"{error.reason}: {error}{cause}", file=sys.stderr)
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m migrations",
        description="Apply the migrations that a database lacks.",
        epilog="example: python -m migrations --dsn postgresql://owner@db.internal/hourglass --status",
    )
    parser.add_argument(
        "--dsn", default=os.environ.get("DATABASE_URL"), help="the owner's (default: DATABASE_URL)"
    )
    parser.add_argument(
        "--status", action="store_true", help="only tell; exit code 1 when something is missing"
    )
    parser.add_argument(
        "--limit", type=float, default=DEFAULT_LIMIT, help="seconds for all of it (default: 300)"
    )
    return parser


async def _run(dsn: str, *, only_status: bool, budget: Budget) -> int:
    if only_status:
        return _tell(await status(dsn, budget=budget))
    applied = await migrate(dsn, budget=budget)
    print(f"applied {len(applied)}" if applied else "up to date")
    return UP_TO_DATE


def _tell(found: Status) -> int:
    for applied in found.applied:
        print(f"{applied.version:04}_{applied.name}  applied {applied.applied_time:%Y-%m-%d %H:%M:%S} UTC")
    for migration in found.pending:
        print(f"{migration}  missing")
    return BEHIND if found.pending else UP_TO_DATE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
