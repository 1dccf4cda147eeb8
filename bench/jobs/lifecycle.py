"""Full lifecycle: claim, start step, attempt, acceptance, settlement, events; jobs of a hundred tenants.

One worker process, two, the bare statements, and one that speaks to a model server over the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.budget.figures import Figure, middle
from bench.jobs.environment import Drained
from bench.jobs.statements import statement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.budget.children import Child
    from bench.jobs.environment import Environment, Place

JOBS: Final = 6000
SKETCHED: Final = 15_000
OVER_THE_WIRE: Final = 300
ROUNDS: Final = 6
"""At most: each takes a quarter of a minute."""
WIRE_SLOTS: Final = 64
"""The worker's default: a real provider is what it waits for."""
ONE, PAIR, WIRE = "instant/fast", "instant/pair", "simulated/simulated-fast:tokens=3"
RATE: Final = 3000.0
OF_ONE: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """All sides within seconds of each other."""

    one: Drained
    two: Drained
    wire: Drained
    sketch: Drained


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The processes."""

    one: Sequence[Child]
    two: Sequence[Child]
    wire: Sequence[Child]
    sketch: Child


async def measure(environment: Environment) -> list[Figure]:
    """Alternates the sides."""
    place = await environment.place("empty")
    sides = await _sides(environment, place)
    await _round(place, sides, share=0.25)
    rounds = await environment.quiet.rounds(lambda: _round(place, sides), most=ROUNDS)
    return _figures(rounds)


async def profile(environment: Environment) -> str:
    """Where the worker's time went, and Postgres's, in one drain by one process."""
    place = await environment.place("empty")
    worker = await place.worker("one", model="fast")
    await place.owner.execute("SELECT pg_stat_statements_reset()")
    await worker.ask("profile", on=True)
    await place.drain([worker], JOBS, lane=ONE)
    lines = (await worker.ask("profile", on=False))["lines"]
    dearest = await place.owner.fetch(statement("read_dearest_statements"))
    return "\n".join([lines, *(" ".join(map(str, row.values())) for row in dearest)])


async def _sides(environment: Environment, place: Place) -> Sides:
    await place.owner.execute(statement("create_sketch"))
    server = await environment.model_server()
    return Sides(
        one=[await place.worker("one", model="fast")],
        two=[await place.worker(name, model="pair") for name in ("first of two", "second of two")],
        wire=[
            await place.worker("over the wire", model="simulated-fast*", provider=server, slots=WIRE_SLOTS)
        ],
        sketch=await environment.child("bench.jobs.sketch", "--dsn", place.worker_dsn),
    )


async def _round(place: Place, sides: Sides, share: float = 1.0) -> Round:
    jobs = int(JOBS * share)
    return Round(
        one=await place.drain(sides.one, jobs, lane=ONE),
        sketch=await _sketch(place, sides.sketch, int(SKETCHED * share)),
        two=await place.drain(sides.two, jobs, lane=PAIR),
        wire=await place.drain(sides.wire, int(OVER_THE_WIRE * share), lane=WIRE),
    )


async def _sketch(place: Place, sketch: Child, jobs: int) -> Drained:
    await place.owner.execute("TRUNCATE hourglass.bench_sketch")
    await place.owner.execute(statement("fill_sketch"), jobs)
    await place.owner.execute("VACUUM (ANALYZE) hourglass.bench_sketch")
    before = place.environment.postgres_seconds()
    done = await sketch.ask("drain", within=60.0)
    assert done["jobs"] == jobs, done
    used = place.environment.postgres_seconds() - before
    return Drained(
        rate=jobs / done["seconds"], worker_cpu=done["cpu"] / jobs * 1e6, postgres_cpu=used / jobs * 1e6
    )


def _figures(rounds: Sequence[Round]) -> list[Figure]:
    one, two = _rates(rounds, lambda one: one.one), _rates(rounds, lambda one: one.two)
    wire, sketch = _rates(rounds, lambda one: one.wire), _rates(rounds, lambda one: one.sketch)
    return [
        Figure(
            name="full lifecycle, one worker process",
            unit="jobs/s",
            ours=middle(one),
            other=middle(sketch),
            other_name="two bare statements",
            target=RATE,
            samples=one,
            ratios=_ratios(one, sketch),
            notes={**_costs([one.one for one in rounds]), "other": _costs([one.sketch for one in rounds])},
        ),
        Figure(
            name="two worker processes beside one",
            unit="jobs/s",
            ours=middle(two),
            other=middle(one),
            other_name="one",
            of_ratio=True,
            target=OF_ONE,
            samples=two,
            ratios=_ratios(two, one),
            notes=_costs([one.two for one in rounds]),
        ),
        Figure(
            name="over the wire, one worker process",
            unit="jobs/s",
            ours=middle(wire),
            samples=wire,
            notes=_costs([one.wire for one in rounds]),
        ),
        *_counts([one.one for one in rounds]),
    ]


def _counts(drains: Sequence[Drained]) -> list[Figure]:
    return [
        Figure(name=name, unit=unit, ours=middle(values), samples=values)
        for name, unit, values in (
            ("statements a job", "statements", [one.statements for one in drains]),
            ("commits a job", "commits", [one.commits for one in drains]),
            ("WAL a job", "bytes", [one.wal_bytes for one in drains]),
            ("processor time a job, worker", "us", [one.worker_cpu for one in drains]),
            ("processor time a job, PostgreSQL", "us", [one.postgres_cpu for one in drains]),
        )
    ]


def _rates(rounds: Sequence[Round], of: Callable[[Round], Drained]) -> list[float]:
    return [of(one).rate for one in rounds]


def _ratios(ours: Sequence[float], other: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(ours, other, strict=True)]


def _costs(drains: Sequence[Drained]) -> dict[str, float]:
    return {
        "worker_cpu_us_a_job": middle([one.worker_cpu for one in drains]),
        "postgres_cpu_us_a_job": middle([one.postgres_cpu for one in drains]),
    }
