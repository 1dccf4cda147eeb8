"""Pricing hangs for half of the calls: the other half must not feel it."""

from dataclasses import dataclass
from typing import Final

from bench.budget.environment import Answers, Environment, Side
from bench.budget.figures import Figure, middle, percentile
from bench.budget.models import QUICK, TURNED

SECONDS: Final = 1.5
CALLERS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """The healthy half of one side in one round. `slowest` is its p99 in ms while the other half hung."""

    kept: float
    rate: float
    slowest: float


async def measure(environment: Environment) -> list[Figure]:
    """The healthy half's throughput and p99, hung beside unhung, ours beside by hand."""
    sides = {name: await environment.side(name) for name in ("served", "naive")}

    async def round_of_all() -> dict[str, Half]:
        return {name: await _half(environment, side) for name, side in sides.items()}

    rounds = await environment.quiet.rounds(round_of_all)
    kept = {name: [one[name].kept for one in rounds] for name in sides}
    rates = {name: [one[name].rate for one in rounds] for name in sides}
    slowest = {name: [one[name].slowest for one in rounds] for name in sides}
    return [
        Figure(
            name="pricing hung for half: throughput that the healthy half keeps",
            unit="x",
            ours=middle(kept["served"]),
            other=middle(kept["naive"]),
            target=0.9,
            samples=kept["served"],
            notes={"calls_a_second": middle(rates["served"]), "by_hand": middle(rates["naive"])},
        ),
        Figure(
            name="pricing hung for half: p99 of the healthy half",
            unit="ms",
            ours=middle(slowest["served"]),
            other=middle(slowest["naive"]),
            at_least=False,
            samples=slowest["served"],
        ),
    ]


async def _half(environment: Environment, side: Side) -> Half:
    unhung = await _round(environment, side, hung=False)
    hung = await _round(environment, side, hung=True)
    return Half(
        kept=hung.good_rate / unhung.good_rate,
        rate=hung.good_rate,
        slowest=percentile(hung.good, 0.99) * 1000,
    )


async def _round(environment: Environment, side: Side, *, hung: bool) -> Answers:
    """The healthy half of a round."""
    half = CALLERS // 2
    await environment.pricing.ask("turn", off=hung)
    try:
        answers = await environment.load(side, "closed", models=[QUICK, TURNED] * half, seconds=SECONDS)
    finally:
        await environment.pricing.ask("turn", off=False)
    return answers.of(QUICK)
