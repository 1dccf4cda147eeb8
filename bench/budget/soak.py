"""`make soak`: each dependency hangs for SOAK_SECONDS under a steady load. Nothing may grow without end, and
2 s after the load has ended everything is as it was before.
"""

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from bench.budget.environment import Environment, Side, run
from bench.budget.figures import FRESH, Figure, middle, missed, table, write
from bench.budget.models import HUNG, PROVIDER, QUICK
from bench.budget.plot import svg
from tests.model_server import model_server

SECONDS: Final = float(os.environ.get("SOAK_SECONDS", "120"))
RATE: Final = 60.0
WARM_UP: Final = 5.0
SETTLE: Final = 2.0
RSS_GROWTH: Final = 0.05
"""Share by which the last quarter's memory may exceed the second quarter's."""
LEVELS: Final = ("tasks", "in_flight", "pool_in_use", "pool_waiting")
_SLACK: Final = {"tasks": 4.0, "in_flight": 0.0, "pool_in_use": 0.0, "pool_waiting": 0.0}
"""How far a gauge may lie above what it was before, SETTLE seconds after the load's end."""

Gauges = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """A dependency that hangs for calls of a model, or while `hanging` lasts."""

    name: str
    model: str
    hanging: Callable[[], AbstractAsyncContextManager[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Soaked:
    """Gauges before the load, once a second under it, and SETTLE seconds after its end."""

    name: str
    before: Gauges
    during: Sequence[tuple[float, Gauges]]
    after: Gauges
    endings: Mapping[str, int]
    """How often each code and reason came."""

    @property
    def calls(self) -> int:
        """How many were made."""
        return sum(self.endings.values())

    @property
    def untold(self) -> int:
        """How many ended without a reason of ours."""
        return sum(count for ending, count in self.endings.items() if ending.endswith("/"))

    def quarter(self, number: int, gauge: str) -> float:
        """The mean of a gauge in one quarter of the load's time, 1 to 4."""
        size = len(self.during) / 4
        part = self.during[int(size * (number - 1)) : max(int(size * number), 1)]
        return sum(gauges[gauge] for _, gauges in part) / len(part)


async def soak(environment: Environment, provider: str) -> list[Soaked]:
    """One dependency after the other, against the same process."""
    side = await environment.side("served", "--provider", provider)
    await environment.load(side, "open", model=QUICK, rate=RATE, seconds=WARM_UP, seed=1)
    hangs = (
        Hang(name="pricing", model=HUNG, hanging=_as_it_is),
        Hang(name="SQL", model=QUICK, hanging=environment.locked_table),
        Hang(name="provider", model=PROVIDER, hanging=_as_it_is),
    )
    return [await _soak(environment, side, hang) for hang in hangs]


async def _soak(environment: Environment, side: Side, hang: Hang) -> Soaked:
    await environment.load(side, "open", model=hang.model, rate=RATE, seconds=WARM_UP, seed=2)
    await asyncio.sleep(SETTLE)
    before = await side.process.ask("gauges")
    started = time.monotonic()
    async with hang.hanging():
        load = asyncio.create_task(
            environment.load(
                side, "open", within=SECONDS + 60, model=hang.model, rate=RATE, seconds=SECONDS, seed=3
            )
        )
        during = await _watch(side, load, started)
        answers = await load
    await asyncio.sleep(SETTLE)
    return Soaked(
        name=hang.name,
        before=before,
        during=during,
        after=await side.process.ask("gauges"),
        endings=dict(Counter(f"{call.code}/{call.reason}" for call in answers.calls)),
    )


async def _watch(side: Side, load: "asyncio.Task[Any]", started: float) -> list[tuple[float, Gauges]]:
    seen: list[tuple[float, Gauges]] = []
    while not load.done():
        await asyncio.wait({load}, timeout=1.0)
        if not load.done():
            seen.append((time.monotonic() - started, await side.process.ask("gauges")))
    return seen


@asynccontextmanager
async def _as_it_is() -> AsyncIterator[None]:
    yield


def figures(soaked: Soaked) -> list[Figure]:
    """Memory levels off; everything else returns."""
    names = f"{soaked.name} hung"
    growth = soaked.quarter(4, "rss_mib") / soaked.quarter(2, "rss_mib") - 1
    return [
        Figure(
            name=f"{names}: memory, last quarter beside the second",
            unit="growth",
            ours=growth,
            target=RSS_GROWTH,
            at_least=False,
            notes={"before_mib": soaked.before["rss_mib"], "after_mib": soaked.after["rss_mib"]},
        ),
        *(_returns(soaked, gauge) for gauge in LEVELS),
        Figure(
            name=f"{names}: calls that we did not answer ourselves",
            unit="share",
            ours=soaked.untold / max(soaked.calls, 1),
            notes={"calls": soaked.calls, "endings": soaked.endings},
        ),
    ]


def _returns(soaked: Soaked, gauge: str) -> Figure:
    return Figure(
        name=f"{soaked.name} hung: {gauge} 2 s after the end, above before",
        unit="",
        ours=max(0.0, soaked.after[gauge] - soaked.before[gauge]),
        target=_SLACK[gauge],
        at_least=False,
        notes={
            "before": soaked.before[gauge],
            "middle_under_load": middle([gauges[gauge] for _, gauges in soaked.during]),
            "most_under_load": max(gauges[gauge] for _, gauges in soaked.during),
            "second_quarter": soaked.quarter(2, gauge),
            "last_quarter": soaked.quarter(4, gauge),
        },
    )


def plot(soaks: Sequence[Soaked], gauge: str) -> str:
    """One gauge over time, a line for each dependency."""
    lines = {
        f"{soaked.name} hung": [(seconds, gauges[gauge]) for seconds, gauges in soaked.during]
        for soaked in soaks
    }
    return svg(f"{gauge} while a dependency hangs, {RATE:g} calls/s", "seconds", gauge, lines)


def main() -> int:
    """0 when every target is met."""
    with model_server("model_servers.simulated") as provider:
        soaks: list[Soaked] = run(lambda environment: soak(environment, provider))
    found = [figure for soaked in soaks for figure in figures(soaked)]
    print(table(found))
    write(found, FRESH / "soak.json", seconds=SECONDS, rate=RATE)
    for gauge in ("rss_mib", *LEVELS):
        (FRESH / f"soak-{gauge}.svg").write_text(plot(soaks, gauge))
    print(f"figures and plots: {FRESH}/soak*")
    return 1 if missed(found) else 0


if __name__ == "__main__":
    sys.exit(main())
