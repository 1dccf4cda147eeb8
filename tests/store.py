"""The store as tests drive it: open as its own roles, with jobs, workers and endings in one line each."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from uuid import uuid4

from budget.core import Budget
from budget.policy import Policy
from budget.postgres import Database
from jobs_store.attempts import AttemptEnd, ProviderCost
from jobs_store.cancellation import JobCancellation
from jobs_store.creation import JobCreation
from jobs_store.decisions import RetryTiming
from jobs_store.endings import Fence, Finish, Result, Return
from jobs_store.events import EventKind, NewEvent, attempt_ended, result_accepted, state_changed
from jobs_store.idempotency import HASH_VERSION, key_digest, request_digest
from jobs_store.identifiers import JobId, TenantId, new_job_id
from jobs_store.new_job import Key, NewJob, Origin, Price
from jobs_store.operator_decisions import Decision, OperatorDecisions
from jobs_store.quotes import QuoteStore
from jobs_store.rate_card import RateCard, RateTier, Usage
from jobs_store.reading import JobReader
from jobs_store.reaper import Reaper
from jobs_store.runs import (
    FIRST_FREE_EVENT,
    Append,
    Claimed,
    ClaimRequest,
    Dealt,
    Held,
    RunStore,
    Start,
    Started,
)
from jobs_store.states import (
    AttemptOutcome,
    Cause,
    CostBasis,
    ErrorClass,
    FinishReason,
    JobState,
    PriceBasis,
    UnknownOutcomePolicy,
)
from jobs_store.tenants import Limits, TenantStore
from jobs_store.turns import Turn
from tests.postgres import TestDatabase

TENANT = TenantId("acme")
LANE = "simulated/fast"
WORST_CASE = Decimal("0.001")
RESERVED = Decimal("0.01")
"""What every job of these tests sets aside, in dollars, unless told otherwise."""
USAGE = Usage(input_tokens=100, output_tokens=50)
CARD = RateCard(
    model="fast",
    price_version="1",
    tiers=(RateTier(above_input_tokens=0, input=Decimal(10), cached_input=Decimal(5), output=Decimal(40)),),
)
CHARGE = CARD.amount(USAGE)
LEASE = 30.0
OVER = -1.0
"""A lease that is over when it begins."""
LONG_ENOUGH = 20.0
POOL = 3
BUSY_POOL = 8
"""Connections of each role: few, because every test pays for them; more where a test is about a crowd."""


def time_enough() -> Budget:
    """A budget that no test uses up."""
    return Budget.for_work(LONG_ENOUGH)


def policy_of(method: str) -> Policy:
    """The policy of a store method, as a service's settings would give it."""
    return Policy(dependency="postgres", method=method, limit=LONG_ENOUGH)


def new_job(tenant: TenantId = TENANT, *, key: str | None = None, **changed: Any) -> NewJob:
    """A job to create, with `changed` fields."""
    job_id = new_job_id()
    job = NewJob(
        tenant=tenant,
        job_id=job_id,
        key=Key(
            digest=key_digest(key or str(job_id)),
            hash_version=HASH_VERSION,
            request_digest=request_digest({"model": "fast"}),
            lifetime=3600.0,
        ),
        origin=Origin(principal="ada", traceparent="", tracestate="", ledger="postgres/create_job"),
        price=price(),
        model="fast",
        messages=({"role": "user", "content": "Say hello."},),
        sampling={},
        max_output_tokens=100,
        attempt_timeout=90.0,
        queue_timeout=3600.0,
        max_attempts=3,
        unknown_outcome_policy=UnknownOutcomePolicy.RETRY,
        provider_cost_limit=Decimal("0.01"),
        max_charge=None,
        priority=0,
        schedule_time=None,
        labels={"team": "search"},
    )
    return replace(job, **changed)


def price(**changed: Any) -> Price:
    """What a job of these tests costs, with `changed` fields."""
    priced = Price(
        basis=PriceBasis.LIVE,
        version="1",
        quote_id=None,
        rate_card=CARD,
        provider_rate_card=CARD,
        provider="simulated",
        lane=LANE,
        input_token_bound=200,
        input_token_estimate=90,
        quoted_amount=RESERVED,
        attempt_worst_case=WORST_CASE,
    )
    return replace(priced, **changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Every part of the store over one database: callers' parts as the request role, the rest as workers."""

    database: TestDatabase
    request: Database
    worker: Database
    tenants: TenantStore
    creation: JobCreation
    quotes: QuoteStore
    reader: JobReader
    cancellation: JobCancellation
    decisions: OperatorDecisions
    runs: RunStore
    reaper: Reaper

    async def tenant(
        self, tenant: TenantId = TENANT, *, funds: Decimal = Decimal(1000), **limits: int
    ) -> TenantId:
        """Make a tenant with funds."""
        await self.tenants.create(
            tenant, display_name=tenant.title(), limits=Limits(**limits), budget=time_enough()
        )
        if funds:
            await self.tenants.fund(
                tenant, funds, request_id="first", actor="ops", reason="test", budget=time_enough()
            )
        return tenant

    async def create(self, tenant: TenantId = TENANT, **changed: Any) -> JobId:
        """Create a job."""
        job = new_job(tenant, **changed)
        await self.creation.create(job, budget=time_enough())
        return job.job_id

    async def claim(
        self,
        slots: int = 10,
        *,
        lanes: Sequence[str] = (LANE,),
        lease: float = LEASE,
        after: str = "",
        tenants: int = 100,
    ) -> list[Claimed]:
        """Claim as a worker of these tests."""
        turn = Turn(after_tenant=TenantId(after))
        return list((await self.deal(slots, turn, lanes=lanes, lease=lease, tenants=tenants)).runs)

    async def deal(
        self,
        slots: int,
        turn: Turn,
        *,
        lanes: Sequence[str] = (LANE,),
        lease: float = LEASE,
        tenants: int = 100,
    ) -> Dealt:
        """Claim from a turn on."""
        request = ClaimRequest(
            lanes=lanes,
            slots=slots,
            worker_id="worker-1",
            worker_address="127.0.0.1:50051",
            lease=lease,
            turn=turn,
            tenants=tenants,
        )
        return await self.runs.claim(request, budget=time_enough())

    async def claim_one(self, *, lease: float = LEASE) -> Claimed:
        """Claim the one job that waits."""
        (claimed,) = await self.claim(1, lease=lease)
        return claimed

    async def running(self, *, lease: float = LEASE, **changed: Any) -> Claimed:
        """Create a job, claim it and take its start step."""
        await self.create(**changed)
        claimed = await self.claim_one(lease=lease)
        await self.start(claimed)
        return claimed

    async def start(self, *claimed: Claimed) -> list[Started]:
        """Take the start step of runs."""
        return await self.runs.start([start_of(run) for run in claimed], budget=time_enough())

    async def held(self, **changed: Any) -> Claimed:
        """A job whose attempt ended without anybody knowing how, held by its run."""
        claimed = await self.running(**changed)
        await self.runs.requeue([hold_of(claimed)], budget=time_enough())
        return claimed

    async def failed(self, **changed: Any) -> Claimed:
        """A job that failed for good."""
        claimed = await self.running(**changed)
        await self.runs.finish([failure_of(claimed)], budget=time_enough())
        return claimed

    async def succeeded(self, **changed: Any) -> Claimed:
        """A job whose answer, streamed in two deltas, was accepted."""
        claimed = await self.running(**changed)
        await self.runs.append([deltas_of(claimed, "Hel", "lo.")], budget=time_enough())
        acceptance = acceptance_of(claimed)
        fence = replace(acceptance.fence, first_event=FIRST_FREE_EVENT + 3)
        await self.runs.finish([replace(acceptance, fence=fence)], budget=time_enough())
        return claimed


@asynccontextmanager
async def open_store(database: TestDatabase, *, pool: int = POOL) -> AsyncIterator[Store]:
    """The store over a database, with the lane of these tests known."""
    request = await Database.open(
        database.request, budget=time_enough(), size=pool, application_name="request"
    )
    worker = await Database.open(database.worker, budget=time_enough(), size=pool, application_name="worker")
    try:
        store = Store(
            database=database,
            request=request,
            worker=worker,
            tenants=TenantStore(request, policy_of),
            creation=JobCreation(request, policy_of),
            quotes=QuoteStore(request, policy_of),
            reader=JobReader(request, policy_of),
            cancellation=JobCancellation(request, policy_of),
            decisions=OperatorDecisions(request, policy_of),
            runs=RunStore(worker, policy_of),
            reaper=Reaper(
                worker,
                policy_of,
                timing=RetryTiming(backoff_base=0.0),
                jitter=lambda most: most,
                page_size=100,
            ),
        )
        await store.runs.register_lanes([LANE], budget=time_enough())
        yield store
    finally:
        await asyncio.gather(request.close(time_enough()), worker.close(time_enough()))


def decision_about(job_id: JobId, *, tenant: TenantId = TENANT, request_id: str = "") -> Decision:
    """What an operator decides about a job; a decision of its own unless a request_id is given."""
    return Decision(
        tenant=tenant,
        job_id=job_id,
        request_id=request_id or str(uuid4()),
        actor="ops",
        reason="it was a bad day",
    )


def start_of(run: Claimed) -> Start:
    """The start step of a run."""
    return Start(
        tenant=run.tenant,
        job_id=run.job_id,
        token=run.token,
        event_number=FIRST_FREE_EVENT,
        provider=run.provider,
        provider_model=run.model,
    )


def token_of(run: Claimed) -> Held:
    """What a run renews by."""
    return Held(tenant=run.tenant, job_id=run.job_id, token=run.token)


def fence_of(run: Claimed, *, first_event: int = FIRST_FREE_EVENT + 1) -> Fence:
    """The fence of a run's own ending."""
    return Fence(tenant=run.tenant, job_id=run.job_id, token=run.token, by_run=True, first_event=first_event)


def deltas_of(run: Claimed, *texts: str, first_event: int = FIRST_FREE_EVENT + 1) -> Append:
    """Token deltas of a run."""
    return Append(
        tenant=run.tenant,
        job_id=run.job_id,
        token=run.token,
        epoch=run.epoch,
        attempt_number=run.attempt_number,
        first_event=first_event,
        events=[delta(text) for text in texts],
    )


def delta(text: str) -> NewEvent:
    """One token delta."""
    return NewEvent(kind=EventKind.TOKEN_DELTA, text=text, attributes={"offset": 0, "token_count": 1})


def succeeded(usage: Usage = USAGE) -> AttemptEnd:
    """An attempt that brought an answer."""
    return AttemptEnd(
        outcome=AttemptOutcome.SUCCEEDED,
        cause="COMPLETED",
        counted=True,
        provider_request_id=str(uuid4()),
        usage=usage,
        cost=ProviderCost.known(CARD, usage, CostBasis.REPORTED),
    )


def unknown() -> AttemptEnd:
    """An attempt that nobody knows the end of."""
    return AttemptEnd(
        outcome=AttemptOutcome.UNKNOWN,
        cause="RESET",
        counted=True,
        error_class=ErrorClass.UNKNOWN,
        cost=ProviderCost.unknown(WORST_CASE),
    )


def failed(error_class: ErrorClass = ErrorClass.TRANSIENT) -> AttemptEnd:
    """An attempt that the provider refused."""
    return AttemptEnd(outcome=AttemptOutcome.FAILED, cause="HTTP_503", counted=True, error_class=error_class)


NOT_SENT = AttemptEnd(outcome=AttemptOutcome.NOT_SENT, cause="SHUTDOWN", counted=False)


def acceptance_of(run: Claimed, *, charge: Decimal = CHARGE, text: str = "Hello.") -> Finish:
    """The acceptance of a run's result."""
    end = succeeded()
    return Finish(
        fence=fence_of(run),
        state=JobState.SUCCEEDED,
        cause=Cause.ACCEPTED,
        charge=charge,
        events=(
            *attempt_ended(end),
            result_accepted(FinishReason.STOP, end.usage, len(text)),
            state_changed(JobState.SUCCEEDED, Cause.ACCEPTED),
        ),
        attempt=end,
        result=Result(text=text, finish_reason=FinishReason.STOP, provider_model="fast-1"),
    )


def failure_of(run: Claimed) -> Finish:
    """The end of a job whose attempt failed for good."""
    return ending_of(run, JobState.FAILED, Cause.PERMANENT_ERROR, failed(ErrorClass.PERMANENT))


def cancelled_end_of(run: Claimed, *, charge: Decimal = Decimal(0)) -> Finish:
    """The end of a run whose job a user cancelled."""
    end = AttemptEnd(
        outcome=AttemptOutcome.CANCELLED,
        cause="USER_CANCEL",
        counted=True,
        cost=ProviderCost.unknown(WORST_CASE),
    )
    return ending_of(run, JobState.CANCELLED, Cause.USER_CANCEL, end, charge=charge)


def ending_of(
    run: Claimed, state: JobState, cause: Cause, end: AttemptEnd, *, charge: Decimal = Decimal(0)
) -> Finish:
    """A run ends its job without a result."""
    return Finish(
        fence=fence_of(run),
        state=state,
        cause=cause,
        charge=charge,
        events=(*attempt_ended(end), state_changed(state, cause)),
        attempt=end,
    )


def return_of(
    run: Claimed,
    cause: Cause = Cause.TRANSIENT_ERROR,
    end: AttemptEnd | None = None,
    *,
    state: JobState = JobState.QUEUED,
    delay: float = 0.0,
    first_event: int = FIRST_FREE_EVENT + 1,
) -> Return:
    """A run gives its job back."""
    end = end or failed()
    return Return(
        fence=fence_of(run, first_event=first_event),
        state=state,
        cause=cause,
        delay=delay,
        events=(*attempt_ended(end), state_changed(state, cause)),
        attempt=end,
    )


def release_of(run: Claimed) -> Return:
    """A run that was not sent gives its job back."""
    return return_of(run, Cause.RELEASED, NOT_SENT)


def hold_of(run: Claimed, *, timeout: float = 3600.0, first_event: int = FIRST_FREE_EVENT + 1) -> Return:
    """A run leaves its job to whoever decides."""
    return return_of(
        run,
        Cause.UNKNOWN_OUTCOME,
        unknown(),
        state=JobState.HELD,
        delay=timeout,
        first_event=first_event,
    )


def seeded(seed: int) -> random.Random:
    """A generator whose seed a failing test prints."""
    return random.Random(seed)
