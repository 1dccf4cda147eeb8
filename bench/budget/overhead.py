"""What budgets cost when nothing is wrong: calls a second and processor time, beside the same by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from bench.budget.environment import Environment, Side
from bench.budget.figures import Figure, middle
from bench.budget.models import QUICK

SECONDS: Final = 2.0
SLICES: Final = 4
CALLERS: Final = 32
SIDES: Final = ("naive", "naive-observed", "budget", "served")


async def measure(environment: Environment) -> list[Figure]:
    """Alternates the sides; CALLERS callers without a pause each."""
    sides = {name: await environment.side(name) for name in SIDES}
    for side in sides.values():
        await _slice(environment, side, 1.0)

    rounds = await environment.quiet.rounds(lambda: _round_of_all(environment, sides))
    rates = {name: [one[name].rate for one in rounds] for name in SIDES}
    costs = {name: [one[name].cost for one in rounds] for name in SIDES}
    return _figures(rates, costs)


async def _round_of_all(environment: Environment, sides: Mapping[str, Side]) -> dict[str, "_Slice"]:
    """All sides in slices that alternate, there and back: what drifts meanwhile hits them alike."""
    done: dict[str, list[_Slice]] = {name: [] for name in sides}
    there = list(sides)
    for number in range(SLICES):
        for name in there if number % 2 == 0 else reversed(there):
            done[name].append(await _slice(environment, sides[name], SECONDS / SLICES))
    return {name: _Slice.sum(slices) for name, slices in done.items()}


async def _slice(environment: Environment, side: Side, seconds: float) -> "_Slice":
    before = await side.processor_seconds()
    answers = await environment.load(side, "closed", models=[QUICK] * CALLERS, seconds=seconds, timeout=2.0)
    used = await side.processor_seconds() - before
    assert len(answers.good) >= 0.9 * len(answers.calls), answers.failed[:3]
    return _Slice(calls=len(answers.calls), good=len(answers.good), seconds=answers.seconds, used=used)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slice:
    """Calls of one side in so many seconds, and the seconds of processor time that its service used."""

    calls: int
    good: int
    seconds: float
    used: float

    @classmethod
    def sum(cls, slices: Sequence[Self]) -> Self:
        """All of them as one."""
        return cls(
            calls=sum(one.calls for one in slices),
            good=sum(one.good for one in slices),
            seconds=sum(one.seconds for one in slices),
            used=sum(one.used for one in slices),
        )

    @property
    def rate(self) -> float:
        """OK answers a second."""
        return self.good / self.seconds

    @property
    def cost(self) -> float:
        """Microseconds of processor time a call."""
        return self.used / self.calls * 1e6


def _figures(rates: dict[str, list[float]], costs: dict[str, list[float]]) -> list[Figure]:
    def compare(name: str, ours: str, other: str, target: float | None) -> Figure:
        pairs = [a / b for a, b in zip(rates[ours], rates[other], strict=True)]
        return Figure(
            name=name,
            unit="calls/s",
            ours=middle(rates[ours]),
            other=middle(rates[other]),
            of_ratio=True,
            target=target,
            samples=rates[ours],
            ratios=pairs,
            notes={
                "cpu_us_a_call": middle(costs[ours]),
                "other_cpu_us_a_call": middle(costs[other]),
            },
        )

    beside_the_same = "the whole request path, beside by hand with a span and a log line"
    return [
        compare("budgets in a handler", "budget", "naive", 0.9),
        compare(beside_the_same, "served", "naive-observed", None),
        compare("the whole request path, beside by hand without", "served", "naive", None),
    ]
