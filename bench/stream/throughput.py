"""How many events a second reach watchers, beside plain streaming of messages of the same size."""

from typing import Final

from bench.budget.figures import Figure, middle
from bench.stream.stage import Seen, Stage

JOBS: Final = 10
WATCHERS: Final = 100
SECONDS: Final = 3.0
RATES: Final = (4_000, 8_000, 12_000, 14_000, 16_000, 18_000, 20_000, 24_000)
"""Messages a second, offered to all watchers together."""
KEPT_UP: Final = 0.9
MOST_MISSED: Final = 2


async def measure(stage: Stage) -> list[Figure]:
    """The rate is raised until the watchers do not keep up; plain streams run after it."""
    tried = await ramp(stage)
    rate, seen = max(tried, key=lambda one: one[1].rate)
    size = round(seen.size)
    plain = [await stage.plainly(streams=WATCHERS, size=size, seconds=SECONDS) for _ in range(3)]
    return [
        Figure(
            name=f"token events to {WATCHERS} watchers of {JOBS} jobs",
            unit="messages/s",
            ours=seen.rate,
            other=middle([one.rate for one in plain]),
            other_name="plain grpc.aio",
            of_ratio=True,
            target=0.6,
            notes={
                "bytes": size,
                "offered": rate,
                "p99_ms": seen.latency(0.99),
                "ramp": [{"offered": o, "delivered": s.rate, "p99_ms": s.latency(0.99)} for o, s in tried],
                "plain": [one.rate for one in plain],
            },
        )
    ]


async def ramp(stage: Stage) -> list[tuple[float, Seen]]:
    """What was offered, and what came of it; one step that does not keep up may be somebody else's doing."""
    tried: list[tuple[float, Seen]] = []
    missed = 0
    each = WATCHERS // JOBS
    for rate in RATES:
        jobs = await stage.running_jobs(JOBS)
        written, seen = await stage.watched(jobs, each=each, rate=rate / each, seconds=SECONDS)
        tried.append((written * each, seen))
        missed = missed + 1 if seen.rate < KEPT_UP * rate else 0
        if missed == MOST_MISSED:
            break
    return tried
