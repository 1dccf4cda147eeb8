"""A dependency of fixed capacity, asked for up to three times as much: how many answers come in time?"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.budget.disturbance import ROUNDS
from bench.budget.environment import Environment, Side
from bench.budget.figures import Figure, middle, percentile
from bench.budget.models import SLOTTED
from bench.budget.plot import svg
from bench.budget.pricing_double import SERVICE_TIME, SLOTS

CAPACITY: Final = SLOTS / SERVICE_TIME
LOADS: Final = (0.5, 0.9, 1.0, 1.3, 2.0, 3.0)
OVERLOAD: Final = 2.0
SECONDS: Final = 1.0
SETTLE: Final = 0.4
AT_THE_PEAK: Final = 0.95
"""Share of the peak from which a load counts as being at it."""
SIDES: Final = ("admitted", "served", "naive")
NAMES: Final = {"admitted": "admission on", "served": "budgets, admission off", "naive": "by hand"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One side under one load. `good`: OK answers a second; `busy`: processors that the service used;
    `machine`: the share of all processors that everything here used, callers and database included."""

    good: float
    slowest: float
    busy: float
    machine: float


Curves = Mapping[tuple[str, float], Point]


async def measure(environment: Environment) -> list[Figure]:
    """Goodput at OVERLOAD beside the peak of the same side's curve."""
    sides = {name: await environment.side(name) for name in SIDES}
    rounds = await environment.quiet.rounds(lambda: _curves(environment, sides), most=ROUNDS)
    shares = {name: [_share(curves, name) for curves in rounds] for name in SIDES}
    knees = [_knee(curves, "admitted") for curves in rounds]
    curves = _middle(rounds)
    return [
        Figure(
            name=f"goodput at {OVERLOAD:g}x overload, share of the peak",
            unit="x",
            ours=middle(shares["admitted"]),
            other=middle(shares["naive"]),
            target=0.85,
            samples=shares["admitted"],
            notes={
                "admission_off": middle(shares["served"]),
                "curves": [
                    {"side": NAMES[side], "load": load, "good": point.good, "p99_ms": point.slowest}
                    for (side, load), point in curves.items()
                ],
            },
        ),
        Figure(
            name="share of the machine's processors in use at the peak",
            unit="",
            ours=middle([knee.machine for knee in knees]),
            target=0.5,
            at_least=False,
            samples=[knee.machine for knee in knees],
        ),
        Figure(
            name="processors used by the service at the peak, of one",
            unit="",
            ours=middle([knee.busy for knee in knees]),
            samples=[knee.busy for knee in knees],
        ),
    ]


def plot(figure: Figure) -> str:
    """The curves of `measure`'s first figure, as SVG."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for point in figure.notes["curves"]:
        lines.setdefault(point["side"], []).append((point["load"] * CAPACITY, point["good"]))
    offered = [load * CAPACITY for load in LOADS]
    lines["capacity of pricing"] = [(offered[0], CAPACITY), (offered[-1], CAPACITY)]
    return svg(
        "Answers in time, of a dependency with 8 slots x 20 ms, budgets of 300 ms",
        "calls offered a second",
        "OK a second",
        lines,
    )


async def _curves(environment: Environment, sides: Mapping[str, Side]) -> Curves:
    return {
        (name, load): await _point(environment, side, load) for load in LOADS for name, side in sides.items()
    }


async def _point(environment: Environment, side: Side, load: float) -> Point:
    """Measured after the load has been there for SETTLE seconds."""
    asked: dict[str, Any] = {"model": SLOTTED, "rate": load * CAPACITY, "seed": 7}
    await environment.load(side, "open", seconds=SETTLE, **asked)
    before, all_before = await side.processor_seconds(), environment.quiet.processor_seconds()
    answers = await environment.load(side, "open", seconds=SECONDS, **asked)
    used = await side.processor_seconds() - before
    used_by_all = environment.quiet.processor_seconds() - all_before
    slowest = percentile(answers.good, 0.99) * 1000 if answers.good else 0.0
    return Point(
        good=len(answers.good) / SECONDS,
        slowest=slowest,
        busy=used / answers.seconds,
        machine=used_by_all / answers.seconds / (os.cpu_count() or 1),
    )


def _share(curves: Curves, side: str) -> float:
    return curves[side, OVERLOAD].good / _peak(curves, side)


def _peak(curves: Curves, side: str) -> float:
    return max(curves[side, load].good for load in LOADS)


def _knee(curves: Curves, side: str) -> Point:
    """The first point of a curve that is at its peak."""
    wanted = AT_THE_PEAK * _peak(curves, side)
    return next(curves[side, load] for load in LOADS if curves[side, load].good >= wanted)


def _middle(rounds: Sequence[Curves]) -> Curves:
    return {
        key: Point(
            good=middle([curves[key].good for curves in rounds]),
            slowest=middle([curves[key].slowest for curves in rounds]),
            busy=middle([curves[key].busy for curves in rounds]),
            machine=middle([curves[key].machine for curves in rounds]),
        )
        for key in rounds[0]
    }
