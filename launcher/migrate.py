"""`python -m launcher.migrate`: bring the stack's database up to date (`make migrate`)."""

import asyncio
import logging
import os
import sys

from budget.core import Budget
from budget.errors import BudgetError
from launcher.database import prepare
from launcher.errors import PostgresError
from migrations.errors import MigrationError

LIMIT = 300.0
STOP_LIMIT = 30.0


async def run() -> None:
    """Start or find the server, migrate it, and leave it as it was found."""
    database = await prepare(os.environ.get("DATABASE_URL"), budget=Budget.for_work(LIMIT))
    try:
        print(f"up to date: {database}")
    finally:
        await database.stop(budget=Budget.for_work(STOP_LIMIT))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        asyncio.run(run())
    except (PostgresError, MigrationError, BudgetError) as error:
        sys.exit(f"{error.reason}: {error}")
