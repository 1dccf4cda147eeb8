"""Claims and drains over a million finished jobs, beside the same over none."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import asyncpg

from bench.budget.figures import Figure, middle, percentile
from bench.jobs.environment import CARD, FILL_LIMIT, Drained
from bench.jobs.jobs import policy_of
from bench.jobs.statements import statement
from budget.core import Budget
from budget.postgres import Database
from jobs_store.runs import ClaimRequest, RunStore
from jobs_store.turns import Turn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.jobs.environment import Environment, Place

FINISHED: Final = 1_000_000
CHUNK: Final = 50_000
FILLERS: Final = 2
JOBS: Final = 6000
QUEUED: Final = 5000
CLAIMED: Final = 25
ROUNDS: Final = 6
"""At most: each takes a quarter of a minute."""
LANE: Final = "instant/fast"
OF_EMPTY: Final = 0.85


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Seconds of each claim, and a drain."""

    claims: Sequence[float]
    drain: Drained


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Both sides within seconds of each other."""

    empty: Side
    full: Side


async def measure(environment: Environment) -> list[Figure]:
    """Alternates the two databases."""
    empty, full = await environment.place("empty"), await environment.place("full")
    await _fill(full)
    for place, is_empty in ((empty, True), (full, False)):
        await _side(place, empty=is_empty)

    async def both() -> Round:
        return Round(empty=await _side(empty, empty=True), full=await _side(full, empty=False))

    return _figures(await environment.quiet.rounds(both, most=ROUNDS))


async def _fill(place: Place) -> None:
    """A million jobs that are over, with all that they leave; two connections share the work."""
    begun = time.monotonic()
    chunks = iter(range(1, FINISHED + 1, CHUNK))
    await asyncio.gather(*(_fill_chunks(place, chunks) for _ in range(FILLERS)))
    for table in ("job_facts", "job_payloads", "job_results", "finished_jobs", "attempts", "reservations"):
        await place.owner.execute(f"VACUUM (ANALYZE) hourglass.{table}")
    await place.owner.execute("ANALYZE hourglass.job_events")
    await place.owner.execute("CHECKPOINT")
    place.environment.say(f"{FINISHED} finished jobs made in {time.monotonic() - begun:.0f} s")


async def _fill_chunks(place: Place, chunks: Iterator[int]) -> None:
    connection = await asyncpg.connect(place.dsn, command_timeout=FILL_LIMIT)
    try:
        await connection.execute("SET synchronous_commit = off")
        for first in chunks:
            await connection.fetch(
                statement("fill_finished"), first, CHUNK, FINISHED, json.dumps(CARD.to_json())
            )
    finally:
        await connection.close()


async def _side(place: Place, *, empty: bool) -> Side:
    await place.fill(QUEUED, lane=LANE, empty=empty)
    claims = await _claims(place)
    worker = await place.worker("one" if empty else "over a crowd", model="fast")
    return Side(claims=claims, drain=await place.drain([worker], JOBS, lane=LANE, empty=empty))


async def _claims(place: Place) -> list[float]:
    """One claim after the other, until nothing waits. The lane that workers serve stays closed to them."""
    await place.owner.execute(statement("move_jobs"), LANE, "instant/unserved")
    database = await Database.open(
        place.worker_dsn, budget=Budget.for_work(5.0), size=1, application_name="claims"
    )
    try:
        return await _timed(RunStore(database, policy_of))
    finally:
        await database.close(Budget.for_work(5.0))


async def _timed(store: RunStore) -> list[float]:
    took: list[float] = []
    turn = Turn()
    while True:
        request = ClaimRequest(
            lanes=["instant/unserved"],
            slots=CLAIMED,
            worker_id="bench",
            worker_address="127.0.0.1:1",
            lease=600.0,
            turn=turn,
            tenants=100,
        )
        begun = time.perf_counter()
        dealt = await store.claim(request, budget=Budget.for_work(5.0))
        if not dealt.runs:
            return took
        took.append(time.perf_counter() - begun)
        turn = dealt.turn


def _figures(rounds: Sequence[Round]) -> list[Figure]:
    full = [one.full.drain.rate for one in rounds]
    empty = [one.empty.drain.rate for one in rounds]
    full_claims = [1000 * took for one in rounds for took in one.full.claims]
    empty_claims = [1000 * took for one in rounds for took in one.empty.claims]
    return [
        Figure(
            name="drain over a million finished jobs",
            unit="jobs/s",
            ours=middle(full),
            other=middle(empty),
            other_name="over none",
            of_ratio=True,
            target=OF_EMPTY,
            samples=full,
            ratios=[a / b for a, b in zip(full, empty, strict=True)],
            notes={
                "wal_bytes_a_job": middle([one.full.drain.wal_bytes for one in rounds]),
                "other_wal_bytes_a_job": middle([one.empty.drain.wal_bytes for one in rounds]),
            },
        ),
        Figure(
            name=f"claim of {CLAIMED} over a million finished jobs, p99 of all rounds; ratio of speeds",
            unit="ms",
            ours=percentile(full_claims, 0.99),
            other=percentile(empty_claims, 0.99),
            other_name="over none",
            of_ratio=True,
            target=OF_EMPTY,
            ratios=[percentile(empty_claims, 0.99) / percentile(full_claims, 0.99)],
            notes={
                "claims_a_side": len(full_claims),
                "p50_ms": percentile(full_claims, 0.5),
                "other_p50_ms": percentile(empty_claims, 0.5),
            },
        ),
    ]
