"""`python -m migrations`, as an operator calls it."""

import asyncio
import os
import sys

from migrations.files import load
from tests.postgres import TestDatabase


async def run(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "migrations",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    output, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()


async def test_status_tells_what_is_missing_until_it_was_applied(empty_database: TestDatabase) -> None:
    before = await run("--dsn", empty_database.owner, "--status")
    applied = await run("--dsn", empty_database.owner)
    after = await run("--dsn", empty_database.owner, "--status")

    assert (1, 0, 0) == (before[0], applied[0], after[0])
    assert [f"{migration}  missing" for migration in load()] == before[1].splitlines()
    assert f"applied {len(load())}\n" == applied[1]
    assert "missing" not in after[1]


async def test_a_failure_is_named_with_its_reason() -> None:
    code, _, errors = await run("--dsn", "postgresql://owner@/jobs?host=/nonexistent")

    assert 3 == code
    assert errors.startswith("DATABASE_UNAVAILABLE: ")
    assert "Traceback" not in errors


async def test_a_dsn_is_needed() -> None:
    code, _, errors = await run()

    assert 2 == code
    assert "DATABASE_URL" in errors
