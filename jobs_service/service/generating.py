"""Generate: one short answer for a caller who waits, over three hops and under one deadline.

The money is set aside before anything is sent and settled in every ending, by whatever the call came to.
Nothing is tried twice: a second try would cost a second time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import structlog

from budget.core import Budget
from budget.errors import BudgetError, CommitOutcomeUnknown
from budget.policy import Policy
from jobs_service.domain.call_ending import end_of_answer, end_of_failure, interruption_of
from jobs_service.domain.caller import Caller
from jobs_service.domain.errors import WorkerUnavailable
from jobs_service.domain.pricing import Bounds, Priced, price_of
from jobs_service.domain.short_call import (
    Answered,
    CallerMessage,
    Finished,
    Progress,
    Speeds,
    Started,
    Text,
    WorkerCall,
    WorkerMessage,
    check_fits,
)
from jobs_service.domain.spec import Spec
from jobs_service.service.ports import PriceSource, ShortCalls
from jobs_service.service.settling import Settling
from jobs_store.calls import CallEnd, CallStore, NewCall, Settlement
from jobs_store.identifiers import new_call_id
from jobs_store.new_job import Price
from jobs_store.states import PriceBasis
from servicekit.endings import Cut

Send = Callable[[CallerMessage], Awaitable[None]]
"""Writes to the caller, as fast as the caller reads; raises when the caller is gone."""

WhyCut = Callable[[], Cut | None]
"""Answers why the server's own timer has ended the request; None when it has not."""

_IN_DOUBT: Final = (asyncio.CancelledError, CommitOutcomeUnknown)
"""After these the money may have been set aside."""

_log = structlog.stdlib.get_logger("hourglass.calls")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A call whose money is set aside."""

    new: NewCall
    price: Price
    spec: Spec
    progress: Progress
    cut: WhyCut

    def settlement(self, end: CallEnd) -> Settlement:
        return Settlement(tenant=self.new.tenant, call_id=self.new.call_id, end=end)

    def for_worker(self) -> WorkerCall:
        return WorkerCall(
            tenant=self.new.tenant,
            call_id=self.new.call_id,
            spec=self.spec,
            provider_rate_card=self.price.provider_rate_card,
            input_token_estimate=self.price.input_token_estimate,
        )


class Generator:
    """Runs short calls."""

    def __init__(
        self,
        calls: CallStore,
        settling: Settling,
        prices: PriceSource,
        workers: ShortCalls,
        *,
        price: Policy,
        speeds: Speeds,
    ) -> None:
        self._calls = calls
        self._settling = settling
        self._prices = prices
        self._workers = workers
        self._price = price
        self._speeds = speeds

    async def generate(self, spec: Spec, caller: Caller, *, send: Send, cut: WhyCut, budget: Budget) -> None:
        """Streams the answer: Started, its text, Finished.

        Raises, with nothing reserved: UnknownModel, PricingUnavailable, UpstreamTimeout; MaxChargeTooLow,
        UseAJob; WorkerUnavailable; TenantNotFound, LaneClosed, InsufficientFunds. Later: WorkerRefused,
        WorkerUnavailable, ProviderFailed, and the errors of a budgeted call.
        """
        price = await self._priced(spec, caller, budget=budget)
        check_fits(spec, price.lane, self._speeds, time_left=budget.spendable())
        await self._workers.reach(budget=budget)
        call = _Call(
            new=_new_call(spec, price, caller, budget),
            price=price,
            spec=spec,
            progress=Progress(),
            cut=cut,
        )
        await self._reserve(call, budget=budget)
        answered = await self._run(call, send, budget=budget)
        await send(await self._accept(call, answered, budget=budget))

    async def _priced(self, spec: Spec, caller: Caller, *, budget: Budget) -> Price:
        bounds = Bounds(input_tokens=spec.input_token_bound, output_tokens=spec.max_output_tokens)
        line = await self._prices.price(
            spec.model,
            bounds,
            budget=budget,
            policy=self._price,
            retry_attempt=caller.retry_attempt,
        )
        return price_of(Priced(line=line, basis=PriceBasis.LIVE), spec, path="")

    async def _reserve(self, call: _Call, *, budget: Budget) -> None:
        try:
            await self._calls.reserve(call.new, budget=budget)
        except _IN_DOUBT as error:
            await self._give_up(call, error, budget=budget)
            raise

    async def _run(self, call: _Call, send: Send, *, budget: Budget) -> Answered:
        try:
            await self._relay(call, send, budget=budget)
        except BaseException as error:
            answered = call.progress.answered
            if answered is not None and isinstance(error, BudgetError):
                return answered  # whole, whatever became of its stream
            await self._give_up(call, error, budget=budget)
            raise
        assert call.progress.answered is not None
        return call.progress.answered

    async def _relay(self, call: _Call, send: Send, *, budget: Budget) -> None:
        async def take(message: WorkerMessage) -> None:
            call.progress.take(message)
            if isinstance(message, Text):
                await send(message)

        await send(Started(call_id=call.new.call_id, reserved=call.new.amount))
        call.progress.asked = True
        await self._workers.run(call.for_worker(), take, budget=budget)
        if call.progress.answered is None:
            raise WorkerUnavailable(called=call.progress.sent)

    async def _accept(self, call: _Call, answered: Answered, *, budget: Budget) -> Finished:
        end = end_of_answer(answered, call.price)
        captured = await self._settling.settle(call.settlement(end), ledger=budget.ledger)
        return Finished(
            finish_reason=answered.finish_reason,
            usage=answered.usage,
            captured=min(call.new.amount, end.charge) if captured is None else captured,
        )

    async def _give_up(self, call: _Call, error: BaseException, *, budget: Budget) -> None:
        """Settles a call that broke off; why it did stays what is told."""
        interruption = interruption_of(call.cut(), budget)
        end = end_of_failure(error, call.progress, call.price, interruption=interruption)
        _log.info(
            "a short call broke off",
            tenant=call.new.tenant,
            call=str(call.new.call_id),
            outcome=end.outcome,
            cause=end.cause,
            delivered_tokens=call.progress.tokens,
        )
        try:
            await self._settling.settle(call.settlement(end), ledger=budget.ledger)
        except BudgetError:
            return  # logged; the reaper settles it


def _new_call(spec: Spec, price: Price, caller: Caller, budget: Budget) -> NewCall:
    return NewCall(
        tenant=caller.tenant,
        call_id=new_call_id(),
        principal=caller.user,
        model=spec.model,
        lane=price.lane,
        time_left=budget.remaining(),
        price_version=price.version,
        amount=price.quoted_amount,
        worst_case=price.attempt_worst_case,
    )
