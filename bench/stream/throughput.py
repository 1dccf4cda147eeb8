"""How many events a second reach watchers, beside plain streaming of messages of the same size."""

from typing import Final

from bench.budget.figures import Figure, middle
from bench.stream.stage import Rate, Seen, Stage

ROUNDS: Final = 5
JOBS: Final = 10
WATCHERS: Final = 100
SECONDS: Final = 3.0


async def measure(stage: Stage) -> list[Figure]:
    """Both sides take turns, each as fast as it goes."""
    rounds = [await _round(stage) for _ in range(ROUNDS)]
    return [
        Figure(
            name=f"token events to {WATCHERS} watchers of {JOBS} jobs",
            unit="messages/s",
            ours=middle([ours.rate for ours, _ in rounds]),
            other=middle([plain.rate for _, plain in rounds]),
            other_name="plain grpc.aio",
            of_ratio=True,
            target=0.6,
            samples=[ours.rate for ours, _ in rounds],
            ratios=[ours.rate / plain.rate for ours, plain in rounds],
            notes={"bytes": rounds[0][0].size, "plain": [plain.rate for _, plain in rounds]},
        )
    ]


async def profile(stage: Stage) -> str:
    """The lines of JobService under such a load, the most expensive first."""
    jobs = await stage.running_jobs(JOBS)
    await stage.service.ask("profile", on=True)
    await stage.as_fast_as_it_goes(jobs, each=WATCHERS // JOBS, seconds=SECONDS)
    return str((await stage.service.ask("profile", on=False))["lines"])


async def _round(stage: Stage) -> tuple[Rate, Seen]:
    jobs = await stage.running_jobs(JOBS)
    ours = await stage.as_fast_as_it_goes(jobs, each=WATCHERS // JOBS, seconds=SECONDS)
    plain = await stage.plainly(streams=WATCHERS, size=round(ours.size), seconds=SECONDS)
    return ours, plain
