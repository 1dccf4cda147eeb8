"""CreateJob: the key first, then the price outside any transaction, then one transaction, then the answer."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from budget.core import Budget
from budget.errors import CommitOutcomeUnknown, DatabaseConflict, UpstreamTimeout
from budget.policy import Policy
from jobs_service.domain.caller import Caller
from jobs_service.domain.errors import PricingUnavailable
from jobs_service.domain.new_job import CreateRequest, Terms, new_job, view_of
from jobs_service.domain.pricing import Bounds, Priced, price_of, priced_by_quote
from jobs_service.domain.spec import Spec
from jobs_service.service.last_known import LastKnownPrices
from jobs_service.service.ports import PriceSource
from jobs_store.creation import JobCreation, KeyTaken, KnownKey
from jobs_store.errors import IdempotencyKeyReused
from jobs_store.identifiers import JobId
from jobs_store.new_job import NewJob
from jobs_store.quotes import QuoteStore
from jobs_store.reading import JobReader, JobView
from jobs_store.signals import Notify, jobs_ready
from jobs_store.states import PriceBasis

_FALLBACK_ERRORS = (PricingUnavailable, UpstreamTimeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The job of a key. `replayed`: an earlier request made it."""

    job: JobView
    replayed: bool
    key_expire_time: datetime


class JobCreator:
    """Creates jobs, once a key.

    use_last_known: when PricingService is out, the rates that were seen last may be used, and are labelled.
    """

    def __init__(
        self,
        creation: JobCreation,
        quotes: QuoteStore,
        reader: JobReader,
        prices: PriceSource,
        last_known: LastKnownPrices,
        *,
        price: Policy,
        use_last_known: bool,
        terms: Terms,
        new_id: Callable[[], JobId],
        notify: Notify,
    ) -> None:
        self._creation = creation
        self._quotes = quotes
        self._reader = reader
        self._prices = prices
        self._last_known = last_known
        self._price = price
        self._use_last_known = use_last_known
        self._terms = terms
        self._new_id = new_id
        self._notify = notify

    async def create(
        self, request: CreateRequest, caller: Caller, *, admit: Callable[[], None], budget: Budget
    ) -> Outcome:
        """The job of the key: made now, or as it stands. `admit` is asked before one is made; what it raises
        ends the call.

        Raises IdempotencyKeyReused; UnknownModel, PricingUnavailable, UpstreamTimeout; QuoteError;
        MaxChargeTooLow, InvalidRequest; QueueFull, InsufficientFunds, TenantNotFound; CommitOutcomeUnknown.
        """
        known = await self._find(request, caller, budget=budget)
        if known is not None:
            return await self._replay(known, request, caller, budget=budget)
        admit()
        priced = await self._priced(request, caller, budget=budget)
        job = new_job(
            request,
            price_of(priced, request.spec),
            job_id=self._new_id(),
            caller=caller,
            ledger=budget.ledger.as_text(),
            terms=self._terms,
        )
        return await self._commit(job, request, caller, budget=budget)

    async def _commit(
        self, job: NewJob, request: CreateRequest, caller: Caller, *, budget: Budget
    ) -> Outcome:
        try:
            created = await self._creation.create(job, budget=budget)
        except KeyTaken:
            return await self._replay_of_winner(request, caller, budget=budget)
        except CommitOutcomeUnknown as error:
            return await self._after_lost_commit(job, request, caller, error, budget=budget)
        self._notify(jobs_ready(job.price.lane))
        return Outcome(job=view_of(job, created), replayed=False, key_expire_time=created.key_expire_time)

    async def _find(self, request: CreateRequest, caller: Caller, *, budget: Budget) -> KnownKey | None:
        return await self._creation.find_key(caller.tenant, request.key_digest, budget=budget)

    async def _replay(
        self, known: KnownKey, request: CreateRequest, caller: Caller, *, budget: Budget
    ) -> Outcome:
        if request.request_digest(known.hash_version) != known.request_digest:
            raise IdempotencyKeyReused(known.job_id)
        detail = await self._reader.get(caller.tenant, known.job_id, budget=budget)
        return Outcome(job=detail.job, replayed=True, key_expire_time=known.expire_time)

    async def _replay_of_winner(self, request: CreateRequest, caller: Caller, *, budget: Budget) -> Outcome:
        known = await self._find(request, caller, budget=budget)
        if known is None:  # its lifetime ended in this moment
            raise DatabaseConflict(dependency="postgres", method="create_job")
        return await self._replay(known, request, caller, budget=budget)

    async def _after_lost_commit(
        self,
        job: NewJob,
        request: CreateRequest,
        caller: Caller,
        error: CommitOutcomeUnknown,
        *,
        budget: Budget,
    ) -> Outcome:
        """The key tells what came of the commit, if the rest of the budget allows a look."""
        try:
            known = await self._find(request, caller, budget=budget)
        except Exception:  # noqa: BLE001 - the caller is told what is in doubt, not why nobody could look
            raise error from None
        if known is None:
            raise error
        outcome = await self._replay(known, request, caller, budget=budget)
        is_ours = known.job_id == job.job_id
        if is_ours:
            self._creation.count(job)
        return Outcome(
            job=outcome.job,
            replayed=not is_ours,
            key_expire_time=outcome.key_expire_time,
        )

    async def _priced(self, request: CreateRequest, caller: Caller, *, budget: Budget) -> Priced:
        if request.quote_id is not None:
            quote = await self._quotes.usable(caller.tenant, request.quote_id, budget=budget)
            return priced_by_quote(quote, request.spec)
        try:
            return await self._live(request.spec, caller, budget=budget)
        except _FALLBACK_ERRORS:
            line = self._last_known.recall(request.spec.model) if self._use_last_known else None
            if line is None:
                raise
            return Priced(line=line, basis=PriceBasis.LAST_KNOWN)

    async def _live(self, spec: Spec, caller: Caller, *, budget: Budget) -> Priced:
        bounds = Bounds(input_tokens=spec.input_token_bound, output_tokens=spec.max_output_tokens)
        line = await self._prices.price(
            spec.model,
            bounds,
            budget=budget,
            policy=self._price,
            retry_attempt=caller.retry_attempt,
        )
        self._last_known.remember(line)
        return Priced(line=line, basis=PriceBasis.LIVE)
