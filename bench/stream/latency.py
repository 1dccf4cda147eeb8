"""How long an event takes from the worker's log to a watcher, at two loads."""

from dataclasses import dataclass
from typing import Final

from bench.budget.figures import Figure, middle
from bench.stream.stage import Stage

ROUNDS: Final = 3
SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """So many watchers, spread over jobs, and messages a second to all of them. Targets in milliseconds."""

    watchers: int
    jobs: int
    rate: float
    targets: dict[float, float]


LOADS: Final = (
    Load(watchers=100, jobs=10, rate=3_500, targets={0.5: 5.0, 0.99: 25.0}),
    Load(watchers=2_000, jobs=200, rate=4_000, targets={0.99: 100.0}),
)


async def measure(stage: Stage) -> list[Figure]:
    """Percentiles of all watchers together, the median of the rounds."""
    return [figure for load in LOADS for figure in await of_load(stage, load)]


async def of_load(stage: Stage, load: Load) -> list[Figure]:
    """The figures of one load."""
    each, rounds = load.watchers // load.jobs, []
    for _ in range(ROUNDS if load.watchers < 1000 else 1):
        jobs = await stage.running_jobs(load.jobs)
        _, seen = await stage.watched(jobs, each=each, rate=load.rate / each, seconds=SECONDS)
        rounds.append(seen)
    return [
        Figure(
            name=f"worker to watcher, p{100 * share:g}, {load.watchers:,} watchers, {load.rate:,g}/s",
            unit="ms",
            ours=middle([seen.latency(share) for seen in rounds]),
            target=target,
            at_least=False,
            samples=[seen.latency(share) for seen in rounds],
            notes={
                "delivered": [seen.rate for seen in rounds],
                "ended": [seen.ended for seen in rounds],
                "refusals": [dict(seen.refusals) for seen in rounds],
            },
        )
        for share, target in load.targets.items()
    ]
