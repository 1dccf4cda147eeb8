"""`make bench-jobs`: what jobs cost, every figure beside its other side in one run. Ends with 1 when a target
is missed, and then shows where the time went.

`python -m bench.jobs PART ...` measures parts: lifecycle, pick-up, crowd.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from statistics import median
from typing import TYPE_CHECKING, Final

from bench.budget.disturbance import Quiet
from bench.budget.figures import FRESH, Figure, missed, table, write
from bench.jobs import crowd, lifecycle, pick_up
from bench.jobs.environment import SETTINGS, Environment, environment, postgres, process_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from launcher.postgres import RunningPostgres

    Measure = Callable[[Environment], Awaitable[list[Figure]]]

PARTS: Final[Mapping[str, Measure]] = {
    "lifecycle": lifecycle.measure,
    "pick-up": pick_up.measure,
    "crowd": crowd.measure,
}


async def measure(
    running: RunningPostgres, quiet: Quiet, parts: Sequence[str]
) -> tuple[dict[str, list[Figure]], str]:
    """The figures of each part, and a profile when one was missed."""
    found: dict[str, list[Figure]] = {}
    async with environment(running, quiet) as everything:
        for part in parts:
            begun = time.monotonic()
            found[part] = await PARTS[part](everything)
            everything.say(f"measured {part} in {time.monotonic() - begun:.0f} s")
        bad = [figure for figures in found.values() for figure in missed(figures)]
        return found, await lifecycle.profile(everything) if bad else ""


def main(parts: Sequence[str]) -> int:
    """0 when every target is met."""
    with postgres() as running:
        quiet = Quiet(process_of(running))
        found, profiled = asyncio.run(measure(running, quiet, parts))
    machine = {
        "processors_used_by_others": [min(quiet.others), median(quiet.others), max(quiet.others)],
        "postgres": {"data": "on disk, beside the checkout", "durability": "default", **SETTINGS},
    }
    for part, figures in found.items():
        write(figures, FRESH / f"jobs-{part}.json", machine=machine)
    everything = [figure for figures in found.values() for figure in figures]
    print(table(everything))
    for figure in missed(everything):
        print(f"missed: {figure.name}")
    if profiled:
        (FRESH / "jobs-profile.txt").write_text(profiled)
        print(profiled)
    print(
        f"others used {min(quiet.others):.2f} to {max(quiet.others):.2f} processors in the rounds that count"
    )
    print(f"figures: {FRESH}")
    return 1 if missed(everything) else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all by default")
    wanted = parser.parse_args().parts or list(PARTS)
    if unknown := set(wanted) - PARTS.keys():
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    sys.exit(main(wanted))
