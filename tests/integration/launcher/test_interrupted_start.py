"""Ctrl-C while the database starts leaves no server behind."""

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from budget.core import Budget
from launcher import postgres
from launcher.database import prepare
from tests.postgres import fast_folder
from tests.waiting import eventually


@pytest.fixture
def data_directory() -> Iterator[Path]:
    """A short path that the server's user may enter."""
    with tempfile.TemporaryDirectory(prefix="hourglass-test-", dir=fast_folder()) as folder:
        Path(folder).chmod(0o711)
        yield Path(folder) / "data"


async def test_a_start_that_is_cancelled_stops_what_it_has_started(data_directory: Path) -> None:
    starting = asyncio.create_task(
        prepare(None, budget=Budget.for_work(60), data_directory=data_directory), name="start"
    )
    await eventually(lambda: os.path.exists(f"{data_directory}.lock"), within=10.0)  # noqa: PTH110
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert (data_directory / "PG_VERSION").exists()
    assert not postgres.stop(data_directory, budget=Budget.for_work(10))
