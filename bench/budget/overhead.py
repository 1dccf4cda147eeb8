"""What budgets cost when nothing is wrong: calls a second and processor time, beside the same by hand."""

from typing import Final

from bench.budget.environment import Environment, Side
from bench.budget.figures import Figure, middle
from bench.budget.models import QUICK

SECONDS: Final = 2.0
CALLERS: Final = 32
SIDES: Final = ("naive", "naive-observed", "budget", "served")


async def measure(environment: Environment) -> list[Figure]:
    """Alternates the sides; CALLERS callers without a pause each."""
    sides = {name: await environment.side(name) for name in SIDES}
    for side in sides.values():
        await _round(environment, side, 1.0)

    async def round_of_all() -> dict[str, tuple[float, float]]:
        return {name: await _round(environment, side, SECONDS) for name, side in sides.items()}

    rounds = await environment.quiet.rounds(round_of_all)
    rates = {name: [one[name][0] for one in rounds] for name in SIDES}
    costs = {name: [one[name][1] for one in rounds] for name in SIDES}
    return _figures(rates, costs)


async def _round(environment: Environment, side: Side, seconds: float) -> tuple[float, float]:
    """Calls a second, and microseconds of processor time a call."""
    before = await side.processor_seconds()
    answers = await environment.load(side, "closed", models=[QUICK] * CALLERS, seconds=seconds, timeout=2.0)
    used = await side.processor_seconds() - before
    assert len(answers.good) >= 0.9 * len(answers.calls), answers.failed[:3]
    return answers.good_rate, used / len(answers.calls) * 1e6


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
