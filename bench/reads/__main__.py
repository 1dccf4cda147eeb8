"""`make bench-reads`: GetJob as it is served, under row-level security, beside a bare handler that reads the
same row with one SELECT by key. Ends with 1 when a target is missed.
"""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.budget.children import Child, child
from bench.budget.environment import log_folder
from bench.budget.figures import FRESH, Figure, middle, missed, table, write
from jobs_store.identifiers import TenantId
from launcher.postgres_binaries import embedded
from tests.postgres import TestServer, server
from tests.store import open_store

TENANT: Final = TenantId("bench")
JOBS: Final = 200
CALLERS: Final = 16
ROUNDS: Final = 5
SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """Answers a second, microseconds of the server's processor time for each, and calls that got none."""

    rate: float
    cost: float
    refused: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Both servers, their callers, and the jobs that are read."""

    callers: Child
    jobs: Sequence[str]

    async def spell(self, side: Child, *, seconds: float = SECONDS) -> Spell:
        """So many callers for so long."""
        before = (await side.ask("usage"))["cpu"]
        asked: dict[str, Any] = {"tenant": TENANT, "jobs": self.jobs, "callers": CALLERS, "seconds": seconds}
        told = await self.callers.ask("call", within=seconds + 30, target=side.ready["target"], **asked)
        used = (await side.ask("usage"))["cpu"] - before
        return Spell(
            rate=told["answers"] / told["seconds"], cost=used / told["answers"] * 1e6, refused=told["refused"]
        )


async def measure(postgres: TestServer, logs: Path) -> tuple[list[Figure], str]:
    """The figures, and where JobService's time goes when one was missed."""
    async with (
        postgres.database() as database,
        open_store(database, pool=4) as store,
        child("bench.reads.bare", "--dsn", database.owner, logs=logs) as bare,
        child("bench.stream.job_service", "--dsn", database.request, logs=logs) as service,
        child("bench.reads.callers", logs=logs) as callers,
    ):
        await store.tenant(TENANT)
        bench = Bench(callers=callers, jobs=[str(await store.create(TENANT)) for _ in range(JOBS)])
        for side in (bare, service):
            await bench.spell(side, seconds=1.0)
        rounds = [(await bench.spell(service), await bench.spell(bare)) for _ in range(ROUNDS)]
        found = figures(rounds)
        return found, await profile(bench, service) if missed(found) else ""


def figures(rounds: Sequence[tuple[Spell, Spell]]) -> list[Figure]:
    """Ours and the bare handler's, which took turns."""
    return [
        Figure(
            name="GetJob under row-level security",
            unit="calls/s",
            ours=middle([ours.rate for ours, _ in rounds]),
            other=middle([bare.rate for _, bare in rounds]),
            other_name="bare handler",
            of_ratio=True,
            target=0.6,
            samples=[ours.rate for ours, _ in rounds],
            ratios=[ours.rate / bare.rate for ours, bare in rounds],
            notes={"refused": sum(ours.refused for ours, _ in rounds)},
        ),
        Figure(
            name="processor time of the server for a GetJob",
            unit="us",
            ours=middle([ours.cost for ours, _ in rounds]),
            other=middle([bare.cost for _, bare in rounds]),
            other_name="bare handler",
            samples=[ours.cost for ours, _ in rounds],
        ),
    ]


async def profile(bench: Bench, service: Child) -> str:
    """The lines of JobService under such a load, the most expensive first."""
    await service.ask("profile", on=True)
    await bench.spell(service)
    return str((await service.ask("profile", on=False))["lines"])


def main() -> int:
    """0 when every target is met."""
    with server(embedded()) as postgres, log_folder() as logs:
        found, profiled = asyncio.run(measure(postgres, logs))
    print(table(found))
    write(found, FRESH / "reads.json")
    if profiled:
        (FRESH / "reads-profile.txt").write_text(profiled)
        print(profiled)
    print(f"figures: {FRESH / 'reads.json'}")
    return 1 if missed(found) else 0


if __name__ == "__main__":
    sys.exit(main())
