"""The real JobService over a database, as a child: watches need neither pricing nor a reaper."""

import argparse
import asyncio
import gc
import sys
import time
from collections.abc import Mapping
from typing import Any

import psutil
from pydantic import SecretStr

from bench.budget.children import answer_parent
from bench.budget.profiling import Profiling
from jobs_service.app import JobsApp
from jobs_service.settings import JobsSettings
from jobs_store.reading import JobReader
from servicekit.lifecycle import collect_rarely
from servicekit.logs import configure_logs
from tests.waiting import eventually


class Looks:
    """How often where jobs stand is read: by whoever waits, and by the timer."""

    def __init__(self) -> None:
        self.own, self.ticks = 0, 0
        own, ticks = JobReader.position, JobReader.positions

        def look(*arguments: Any, **named: Any) -> Any:
            self.own += 1
            return own(*arguments, **named)

        def tick(*arguments: Any, **named: Any) -> Any:
            self.ticks += 1
            return ticks(*arguments, **named)

        JobReader.position, JobReader.positions = look, tick  # type: ignore[method-assign]  # counted


async def main(asked: argparse.Namespace) -> None:
    """Serves until its parent ends."""
    looks = Looks()

    async def usage(_asked: Mapping[str, Any]) -> dict[str, float]:
        gc.collect()
        memory = psutil.Process().memory_info().rss
        return {"cpu": time.process_time(), "memory": memory, "own": looks.own, "ticks": looks.ticks}

    settings = JobsSettings(
        listen="127.0.0.1:0",
        database_url=SecretStr(asked.dsn),
        max_concurrent_streams=10_000,
        admission_waiting=20_000,
        log_level="WARNING",
    )
    configure_logs("jobs", level=settings.log_level, log_format="json", stream=sys.stderr)
    async with JobsApp(settings).serving() as server:
        await eventually(lambda: server.health.ready, within=20.0)
        await answer_parent({"target": server.address}, {"usage": usage, "profile": Profiling().profile})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dsn", required=True)
    collect_rarely()
    asyncio.run(main(parser.parse_args()))
