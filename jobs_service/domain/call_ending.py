"""What a short call came to: its outcome, what the tenant owes, what it cost the operator. Pure.

The rules are those of attempts and cancels of jobs. What was delivered is charged, whoever broke off; a
caller who reads the answer and leaves before its end has bought what it read. What nobody knows costs nothing
yet, and has a worst case.
"""

import asyncio
from decimal import Decimal
from typing import Final

from budget.core import Budget
from budget.errors import BudgetExhausted, BudgetTooLow, UpstreamTimeout
from jobs_service.domain.errors import ProviderFailed, WorkerRefused, WorkerUnavailable
from jobs_service.domain.short_call import Answered, Progress
from jobs_store.attempts import NO_USAGE, ProviderCost
from jobs_store.calls import CallEnd
from jobs_store.decisions import charge_of_cancel
from jobs_store.new_job import Price
from jobs_store.rate_card import MAX_TOKENS, Usage
from jobs_store.states import AttemptOutcome, CostBasis, ErrorClass
from servicekit.endings import CallerGone, Cut
from servicekit.errors import Draining

COMPLETED: Final = "COMPLETED"
CALLER_GONE: Final = "CALLER_GONE"
WORKER_GONE: Final = "WORKER_GONE"
INTERNAL: Final = "INTERNAL"


def end_of_answer(answered: Answered, price: Price) -> CallEnd:
    """The answer came whole: it is charged by its usage, at the card that the call was priced at."""
    return CallEnd(
        outcome=AttemptOutcome.SUCCEEDED,
        cause=COMPLETED,
        charge=price.rate_card.amount(answered.usage),
        usage=answered.usage,
        cost=answered.cost,
        provider_request_id=answered.provider_request_id,
    )


def end_of_failure(error: BaseException, progress: Progress, price: Price, *, interruption: str) -> CallEnd:
    """The call broke off. interruption: what a cancel means, if it is one."""
    if progress.answered is not None:
        return end_of_answer(progress.answered, price)
    match error:
        case _ if not _may_have_been_sent(error, progress):
            return CallEnd(outcome=AttemptOutcome.NOT_SENT, cause=_cause(error, interruption=interruption))
        case ProviderFailed():
            return _end_of_provider_failure(error, progress, price)
        case _:
            return _unknown(error, progress, price, interruption=interruption)


def interruption_of(cut: Cut | None, budget: Budget) -> str:
    """Why a call was cancelled: the server ends, its time is over, or else its caller has left."""
    match cut:
        case Cut.DRAIN:
            return Draining.reason
        case Cut.BUDGET:
            return BudgetExhausted.reason
        case None:
            return CALLER_GONE if budget.spendable() > 0 else BudgetExhausted.reason


def _may_have_been_sent(error: BaseException, progress: Progress) -> bool:
    """False only if it is certain that no provider was called for it."""
    match error:
        case BudgetTooLow():
            return progress.sent
        case ProviderFailed():
            return True
        case WorkerRefused():
            return False
        case WorkerUnavailable(called=called):
            return called
        case BudgetExhausted(upstream_metadata=told) | UpstreamTimeout(upstream_metadata=told):
            return progress.asked and told.get("sent") != "false"
        case _:
            return progress.asked


def _end_of_provider_failure(error: ProviderFailed, progress: Progress, price: Price) -> CallEnd:
    unknown = error.sent and error.error_class is ErrorClass.UNKNOWN
    usage, cost = _cost_of_failure(error, progress, price, unknown=unknown)
    return CallEnd(
        outcome=AttemptOutcome.UNKNOWN if unknown else AttemptOutcome.FAILED,
        cause=error.cause,
        charge=_charge_of_delivered(progress, price),
        usage=usage,
        cost=cost,
        provider_request_id=error.provider_request_id,
    )


def _cost_of_failure(
    error: ProviderFailed, progress: Progress, price: Price, *, unknown: bool
) -> tuple[Usage, ProviderCost]:
    if not error.sent:
        return NO_USAGE, ProviderCost.nothing()
    if error.usage is not None:
        return error.usage, ProviderCost.known(price.provider_rate_card, error.usage, CostBasis.REPORTED)
    if unknown:
        return NO_USAGE, ProviderCost.unknown(price.attempt_worst_case)
    if progress.tokens == 0:
        return NO_USAGE, ProviderCost.nothing()
    usage = Usage(input_tokens=price.input_token_estimate, output_tokens=min(progress.tokens, MAX_TOKENS))
    return usage, ProviderCost.known(price.provider_rate_card, usage, CostBasis.ESTIMATED)


def _unknown(error: BaseException, progress: Progress, price: Price, *, interruption: str) -> CallEnd:
    """Nobody knows what the provider did after it was left. A caller's own leaving is a cancel."""
    cause = _cause(error, interruption=interruption)
    return CallEnd(
        outcome=AttemptOutcome.CANCELLED if cause == CALLER_GONE else AttemptOutcome.UNKNOWN,
        cause=cause,
        charge=_charge_of_delivered(progress, price),
        cost=ProviderCost.unknown(price.attempt_worst_case),
    )


def _charge_of_delivered(progress: Progress, price: Price) -> Decimal:
    return charge_of_cancel(
        price.rate_card, input_estimate=price.input_token_estimate, delivered_tokens=progress.tokens
    )


def _cause(error: BaseException, *, interruption: str) -> str:
    match error:
        case asyncio.CancelledError() | CallerGone():
            return interruption
        case WorkerUnavailable(called=True):
            return WORKER_GONE
        case _:
            reason = getattr(error, "reason", None)
            return reason if isinstance(reason, str) else INTERNAL
