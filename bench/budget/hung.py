"""A dependency hangs: everybody gets our status before their deadline, at the limit and not much later."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from bench.budget.environment import Answers, Environment, Side
from bench.budget.figures import Figure, middle, percentile
from bench.budget.limits import CALLER_BUDGET, INSERT, PRICING
from bench.budget.models import HUNG, QUICK, TRANSACTION

CALLERS: Final = 64
MOST_ROUNDS: Final = 8
SETTLE: Final = 0.8
CALLS_EACH: Final = 4
_AT_THE_LIMIT: Final = frozenset({"UPSTREAM_TIMEOUT", "DATABASE_TIMEOUT"})
LATEST: Final = 0.015
"""Seconds after the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """One way to hang. `limit`: seconds that the hung call may take; what went well comes on top."""

    name: str
    model: str
    limit: float
    hanging: Callable[[], AbstractAsyncContextManager[None]]


async def measure(environment: Environment) -> list[Figure]:
    """For each hang: how many get our status, and when."""
    ours, by_hand = await environment.side("served"), await environment.side("naive")
    hangs = (
        Hang(name="pricing hung", model=HUNG, limit=PRICING.limit, hanging=_as_it_is),
        Hang(
            name="SQL hung, one statement", model=QUICK, limit=INSERT.limit, hanging=environment.locked_table
        ),
        Hang(
            name="SQL hung, a transaction",
            model=TRANSACTION,
            limit=INSERT.limit,
            hanging=environment.locked_table,
        ),
    )
    for side in (ours, by_hand):
        await environment.load(side, "closed", models=[QUICK] * CALLERS, seconds=0.5)
    return [figure for hang in hangs for figure in await _figures(environment, hang, ours, by_hand)]


async def _figures(environment: Environment, hang: Hang, ours: Side, by_hand: Side) -> list[Figure]:
    async def round_of_both() -> tuple[Answers, Answers]:
        return await _round(environment, hang, ours), await _round(environment, hang, by_hand)

    rounds = await environment.quiet.rounds(round_of_both, most=MOST_ROUNDS)
    answered = [mine for mine, _ in rounds]
    told = [_share_told(mine) for mine in answered]
    told_by_hand = [_share_told(theirs) for _, theirs in rounds]
    late_in_rounds = [
        [call.took - call.went_well - hang.limit for call in mine.calls if call.reason in _AT_THE_LIMIT]
        for mine in answered
    ]
    late = [seconds for round_ in late_in_rounds for seconds in round_]
    late_by_round = [percentile(round_, 0.99) * 1000 for round_ in late_in_rounds]
    calls = sum(len(answers.calls) for answers in answered)
    mine = sum(_share_told(answers) * len(answers.calls) for answers in answered)
    return [
        Figure(
            name=f"{hang.name}: answered by us before the deadline",
            unit="share",
            ours=mine / calls,
            other=middle(told_by_hand),
            target=0.999,
            samples=told,
            notes={"calls": calls},
        ),
        Figure(
            name=f"{hang.name}: earliest answer after the limit",
            unit="ms",
            ours=min(late) * 1000,
            target=0.0,
        ),
        Figure(
            name=f"{hang.name}: p99 after the limit",
            unit="ms",
            ours=middle(late_by_round),
            target=LATEST * 1000,
            at_least=False,
            samples=late_by_round,
            notes={"p50": percentile(late, 0.5) * 1000, "p99_of_all": percentile(late, 0.99) * 1000},
        ),
    ]


async def _round(environment: Environment, hang: Hang, side: Side) -> Answers:
    async with hang.hanging():
        answers = await environment.load(
            side, "even", model=hang.model, callers=CALLERS, over=hang.limit, rounds=CALLS_EACH
        )
    await asyncio.sleep(SETTLE)  # what one side left hanging, and its cancels, must not meet the other
    return answers


def _share_told(answers: Answers) -> float:
    """Answered by the service itself: with an ErrorInfo, or (by hand) at least with a text of its own."""
    told = [call for call in answers.calls if call.reason and call.took < CALLER_BUDGET and call.code != "OK"]
    return len(told) / len(answers.calls)


@asynccontextmanager
async def _as_it_is() -> AsyncIterator[None]:
    yield
