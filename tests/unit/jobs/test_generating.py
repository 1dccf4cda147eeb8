"""The use case of short calls over doubles: what a fault between two steps comes to."""

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest

from budget.core import Budget
from budget.errors import BudgetExhausted, CommitOutcomeUnknown
from budget.ledger import Ledger
from budget.policy import Policy
from jobs_service.domain.caller import Caller
from jobs_service.domain.errors import WorkerUnavailable
from jobs_service.domain.pricing import Bounds
from jobs_service.domain.short_call import (
    Answered,
    CallerMessage,
    CallSent,
    Finished,
    Speeds,
    Started,
    Text,
    WorkerCall,
    WorkerMessage,
)
from jobs_service.service.generating import Generator
from jobs_store.attempts import ProviderCost
from jobs_store.calls import NewCall, Settlement
from jobs_store.identifiers import TenantId
from jobs_store.quotes import QuotedModel
from jobs_store.states import AttemptOutcome, CostBasis, FinishReason
from servicekit.endings import CallerGone
from tests.store import CARD, LANE, USAGE
from tests.unit.jobs.test_call_ending import spec

Take = Callable[[WorkerMessage], Awaitable[None]]
CALLER = Caller(tenant=TenantId("demo"), user="ann")
PIECE = Text(text="yes", offset=0, tokens=1)
ANSWERED = Answered(
    finish_reason=FinishReason.STOP,
    usage=USAGE,
    cost=ProviderCost.known(CARD, USAGE, CostBasis.REPORTED),
    provider_request_id="req-1",
)


class Prices:
    """One price for everything."""

    async def price(
        self, model: str, bounds: Bounds, *, budget: Budget, policy: Policy, retry_attempt: int = 0
    ) -> QuotedModel:
        return QuotedModel(
            model=model,
            provider="simulated",
            lane=LANE,
            price_version="1",
            amount=Decimal(1),
            provider_amount=Decimal(1),
            rate_card=CARD,
            provider_rate_card=CARD,
        )


class Calls:
    """Takes note of what is reserved and settled."""

    def __init__(self, fault: BaseException | None = None) -> None:
        self.reserved: list[NewCall] = []
        self.settled: list[Settlement] = []
        self._fault = fault

    async def reserve(self, call: NewCall, *, budget: Budget) -> None:
        self.reserved.append(call)
        if self._fault is not None:
            raise self._fault

    async def settle(self, settlement: Settlement, *, ledger: Ledger) -> Decimal | None:
        self.settled.append(settlement)
        return None

    @property
    def end(self) -> tuple[AttemptOutcome, str, Decimal]:
        """The one settlement: outcome, cause, charge."""
        (settlement,) = self.settled
        assert settlement.end is not None
        return settlement.end.outcome, settlement.end.cause, settlement.end.charge


class Workers:
    """A worker that says these things, then raises that."""

    def __init__(self, *messages: WorkerMessage, fault: BaseException | None = None) -> None:
        self._messages = messages
        self._fault = fault

    async def reach(self, *, budget: Budget) -> None:
        """There it is."""

    async def run(self, call: WorkerCall, take: Take, *, budget: Budget) -> None:
        for message in self._messages:
            await take(message)
        if self._fault is not None:
            raise self._fault


async def generate(
    calls: Calls, workers: Workers, send: Callable[[CallerMessage], Awaitable[None]] | None = None
) -> list[CallerMessage]:
    """One short call; what its caller got."""
    got: list[CallerMessage] = []

    async def keep(message: CallerMessage) -> None:
        if send is not None:
            await send(message)
        got.append(message)

    store: Any = calls
    settling: Any = calls
    generator = Generator(
        store,
        settling,
        Prices(),
        workers,
        price=Policy(dependency="pricing", method="GetPrice", limit=1.0),
        speeds=Speeds(first_token=0.0, tokens_per_second=1e6),
    )
    budget = Budget.root(incoming=5.0, default=None, cap=None)
    await generator.generate(spec(), CALLER, send=keep, cut=lambda: None, budget=budget)
    return got


async def test_an_answer_is_told_after_its_money_is_settled() -> None:
    calls = Calls()
    started, text, finished = await generate(calls, Workers(CallSent(), PIECE, ANSWERED))
    assert isinstance(started, Started)
    assert PIECE == text
    assert isinstance(finished, Finished)
    assert CARD.amount(USAGE) == calls.end[2]
    assert min(started.reserved, CARD.amount(USAGE)) == finished.captured


async def test_a_piece_that_is_being_written_when_the_caller_leaves_is_paid_for() -> None:
    async def leave_at_the_text(message: CallerMessage) -> None:
        if isinstance(message, Text):
            raise CallerGone

    calls = Calls()
    with pytest.raises(CallerGone):
        await generate(calls, Workers(CallSent(), PIECE), leave_at_the_text)
    outcome, cause, charge = calls.end
    assert (AttemptOutcome.CANCELLED, "CALLER_GONE") == (outcome, cause)
    assert charge > 0


async def test_a_caller_who_is_gone_before_the_worker_was_asked_owes_nothing() -> None:
    async def leave_at_once(_message: CallerMessage) -> None:
        raise CallerGone

    calls = Calls()
    with pytest.raises(CallerGone):
        await generate(calls, Workers(CallSent(), PIECE), leave_at_once)
    assert (AttemptOutcome.NOT_SENT, "CALLER_GONE", Decimal(0)) == calls.end


@pytest.mark.parametrize(
    "fault",
    [asyncio.CancelledError(), CommitOutcomeUnknown(dependency="postgres", method="reserve_call")],
    ids=lambda fault: type(fault).__name__,
)
async def test_a_reservation_in_doubt_is_settled_and_nothing_is_sent(fault: BaseException) -> None:
    calls = Calls(fault)
    with pytest.raises(type(fault)):
        await generate(calls, Workers(CallSent(), PIECE, ANSWERED))
    assert (AttemptOutcome.NOT_SENT, Decimal(0)) == (calls.end[0], calls.end[2])


async def test_a_refused_reservation_leaves_nothing_to_settle() -> None:
    calls = Calls(BudgetExhausted())
    with pytest.raises(BudgetExhausted):
        await generate(calls, Workers())
    assert [] == calls.settled


async def test_a_stream_that_breaks_after_the_whole_answer_is_a_success() -> None:
    calls = Calls()
    fault = BudgetExhausted(dependency="worker", method="Generate")
    got = await generate(calls, Workers(CallSent(), PIECE, ANSWERED, fault=fault))
    assert isinstance(got[-1], Finished)
    assert AttemptOutcome.SUCCEEDED == calls.end[0]


async def test_a_worker_that_ends_without_a_result_is_gone() -> None:
    calls = Calls()
    with pytest.raises(WorkerUnavailable):
        await generate(calls, Workers(CallSent(), PIECE))
    assert (AttemptOutcome.UNKNOWN, "WORKER_GONE") == calls.end[:2]
