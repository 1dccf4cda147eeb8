"""`make bench-budget`: every figure of the budget, both sides in one run. Ends with 1 when a target is missed
and then shows where the service's time went.
"""

import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from typing import Final

from bench.budget import child_calls, goodput, half_hung, hung, overhead, storm
from bench.budget.environment import Environment, run
from bench.budget.figures import FRESH, Figure, missed, table, write
from bench.budget.models import QUICK

Measure = Callable[[Environment], Awaitable[list[Figure]]]

MEASURES: Final[Sequence[tuple[str, Measure]]] = (
    ("a hung dependency", hung.measure),
    ("half hung", half_hung.measure),
    ("overhead", overhead.measure),
    ("a child call", child_calls.figures),
    ("cancels", storm.measure),
    ("goodput", goodput.measure),
)


async def measure(environment: Environment) -> tuple[list[Figure], str]:
    """All figures, and a profile when one was missed."""
    found: list[Figure] = []
    for name, work in MEASURES:
        started = time.monotonic()
        found += await work(environment)
        print(f"measured {name} in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return found, await profile(environment) if missed(found) else ""


async def profile(environment: Environment) -> str:
    """The service's own lines under a healthy load, the most expensive first."""
    side = await environment.side("served")
    await side.process.ask("profile", on=True)
    await environment.load(side, "closed", models=[QUICK] * overhead.CALLERS, seconds=overhead.SECONDS)
    return str((await side.process.ask("profile", on=False))["lines"])


def main() -> int:
    """0 when every target is met."""
    others: list[float] = []
    lags: list[float] = []

    async def work(environment: Environment) -> tuple[list[Figure], str]:
        result = await measure(environment)
        others.extend(environment.quiet.others)
        lags.extend(environment.quiet.lags)
        return result

    found, profiled = run(work)
    print(table(found))
    machine = {
        "processors_used_by_others": [min(others), median(others), max(others)],
        "latest_wake_up_of_an_idle_process_ms": [round(1000 * lag, 1) for lag in lags],
    }
    write(found, FRESH / "budget.json", machine=machine)
    curves = next(figure for figure in found if "curves" in figure.notes)
    (FRESH / "goodput.svg").write_text(goodput.plot(curves))
    for figure in missed(found):
        print(f"missed: {figure.name}")
    if profiled:
        (FRESH / "profile.txt").write_text(profiled)
        print(profiled)
    print(f"others used {min(others):.2f} to {max(others):.2f} processors in the rounds that count")
    print(
        f"an idle process was woken up to {1000 * max(lags):.0f} ms late (median {1000 * median(lags):.0f})"
    )
    print(f"figures and plot: {FRESH}")
    return 1 if missed(found) else 0


if __name__ == "__main__":
    sys.exit(main())
