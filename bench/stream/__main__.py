"""`make bench-stream`: what watching costs and how late it is. Ends with 1 when a target is missed."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from bench.budget.environment import log_folder
from bench.budget.figures import FRESH, Figure, missed, table, write
from bench.stream import idle, latency, throughput, writers
from bench.stream.stage import Stage
from launcher.postgres_binaries import embedded
from tests.postgres import TestServer, server

Measure = Callable[[Stage], Awaitable[list[Figure]]]

MEASURES: Final[Sequence[tuple[str, Measure]]] = (
    ("throughput", throughput.measure),
    ("latency", latency.measure),
    ("idle watches", idle.measure),
    ("writers", writers.measure),
)


async def measure(postgres: TestServer, logs: Path) -> list[Figure]:
    """All figures, each on a stage of its own."""
    found: list[Figure] = []
    for name, work in MEASURES:
        started = time.monotonic()
        async with Stage.running(postgres, logs) as stage:
            measured = await work(stage)
        found += measured
        print(f"{name}, {time.monotonic() - started:.0f} s\n{table(measured)}", file=sys.stderr, flush=True)
    return found


async def profile(postgres: TestServer, logs: Path) -> str:
    """Where JobService's time goes."""
    async with Stage.running(postgres, logs) as stage:
        return await throughput.profile(stage)


def main() -> int:
    """0 when every target is met."""
    with server(embedded()) as postgres, log_folder() as logs:
        found = asyncio.run(measure(postgres, logs))
        profiled = asyncio.run(profile(postgres, logs)) if missed(found) else ""
    print(table(found))
    write(found, FRESH / "stream.json")
    for figure in missed(found):
        print(f"missed: {figure.name}")
    if profiled:
        (FRESH / "stream-profile.txt").write_text(profiled)
        print(profiled)
    print(f"figures: {FRESH / 'stream.json'}")
    return 1 if missed(found) else 0


if __name__ == "__main__":
    sys.exit(main())
