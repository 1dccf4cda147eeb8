"""Reading jobs: their state, attempts, money, content and events. Never a payload in a list."""

from collections.abc import Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from budget.core import Budget
from budget.postgres import Database, Record, Transaction
from jobs_store.attempts import AttemptEnd, ProviderCost
from jobs_store.creation import PolicyOf
from jobs_store.endings import Result
from jobs_store.errors import JobNotFound
from jobs_store.events import Event, EventKind
from jobs_store.identifiers import JobId, Sequence, TenantId
from jobs_store.rate_card import RateCard, Usage
from jobs_store.statements import statement
from jobs_store.states import (
    AttemptOutcome,
    CostBasis,
    ErrorClass,
    FinishReason,
    JobState,
    PriceBasis,
    UnknownOutcomePolicy,
)
from jobs_store.stored_json import load_array, load_object


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The attempt that goes on now."""

    number: int
    worker_id: str
    claim_time: datetime
    send_time: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """An attempt that ended."""

    number: int
    worker_id: str
    claim_time: datetime
    send_time: datetime | None
    end_time: datetime
    end: AttemptEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Money set aside for a job, in dollars."""

    number: int
    amount: Decimal
    captured: Decimal
    released: Decimal
    create_time: datetime
    settle_time: datetime | None
    settle_cause: str
    overrun: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecLimits:
    """The limits that a job was created with, defaults filled in. Durations in seconds, amounts in dollars.

    schedule_time: None for a job that may start at once.
    """

    max_output_tokens: int
    attempt_timeout: float
    queue_timeout: float
    schedule_time: datetime | None
    max_attempts: int
    unknown_outcome_policy: UnknownOutcomePolicy
    max_charge: Decimal | None
    provider_cost_limit: Decimal
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job as it is. `cost` is what ended attempts cost the operator; amounts in dollars.

    state_expire_time: when a QUEUED job becomes EXPIRED, and a HELD one FAILED.
    """

    tenant: TenantId
    job_id: JobId
    state: JobState
    state_cause: str
    epoch: int
    principal: str
    model: str
    lane: str
    create_time: datetime
    update_time: datetime
    end_time: datetime | None
    ready_time: datetime
    attempt_count: int
    cancel_request_time: datetime | None
    erase_time: datetime | None
    labels: Mapping[str, str]
    traceparent: str
    price_basis: PriceBasis
    rate_card: RateCard
    quoted_amount: Decimal
    captured: Decimal
    reserved: Decimal
    cost: ProviderCost
    state_expire_time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContent:
    """What a job asks and what was answered, as far as they are kept."""

    messages: Many[Mapping[str, str]] | None
    sampling: Mapping[str, Any]
    result: Result | None
    usage: Usage | None
    attempt_number: int | None
    accept_time: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail:
    """A job with what was asked for beside it."""

    job: JobView
    limits: SpecLimits
    ledger: str
    running: Running | None
    attempts: Many[Attempted] = ()
    reservations: Many[Reservation] = ()
    content: JobContent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a job stands, for whoever waits for it or watches it. `trimmed`: its log is not kept any more."""

    state: JobState
    epoch: int
    last_sequence: Sequence
    worker_address: str | None
    trimmed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs a list is about; None: all."""

    states: Many[JobState] | None = None
    model: str | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None


class JobReader:
    """Reads as the request role: a tenant sees its own jobs only."""

    def __init__(self, database: Database, policy_of: PolicyOf) -> None:
        self._database = database
        self._policy_of = policy_of

    async def get(
        self,
        tenant: TenantId,
        job_id: JobId,
        *,
        budget: Budget,
        with_attempts: bool = False,
        with_content: bool = False,
    ) -> JobDetail:
        """One job at one moment. Raises JobNotFound."""
        policy = self._policy_of("read_job")
        async with self._database.transaction(budget, policy, tenants=[tenant], reading=True) as transaction:
            if with_attempts or with_content:
                await transaction.execute(statement("read_one_moment"))
            row = await transaction.fetchrow(statement("read_job"), tenant, job_id)
            if row is None:
                raise JobNotFound(job_id)
            return detail_of(
                row,
                attempts=await _attempts(transaction, tenant, job_id) if with_attempts else (),
                reservations=await _reservations(transaction, tenant, job_id) if with_attempts else (),
                content=await _content(transaction, tenant, job_id) if with_content else None,
            )

    async def page(
        self, tenant: TenantId, wanted: JobFilter, *, before: JobId, size: int, budget: Budget
    ) -> list[JobView]:
        """Up to `size` jobs older than `before`, newest first."""
        policy = self._policy_of("list_jobs")
        async with self._database.transaction(budget, policy, tenants=[tenant], reading=True) as transaction:
            rows = await transaction.fetch(
                statement("list_jobs"),
                tenant,
                before,
                None if wanted.states is None else list(wanted.states),
                wanted.model,
                wanted.created_from,
                wanted.created_before,
                size,
            )
        return [_view(row) for row in rows]

    async def position(self, tenant: TenantId, job_id: JobId, *, budget: Budget) -> Position:
        """Where a job stands. Raises JobNotFound."""
        policy = self._policy_of("read_position")
        async with self._database.transaction(budget, policy, tenants=[tenant], reading=True) as transaction:
            row = await transaction.fetchrow(statement("read_position"), tenant, job_id)
        if row is None:
            raise JobNotFound(job_id)
        return _position(row)

    async def positions(
        self, jobs: Many[tuple[TenantId, JobId]], *, budget: Budget
    ) -> dict[tuple[TenantId, JobId], Position]:
        """Where these jobs stand, in one statement; those that are not there are left out. Whether a log is
        trimmed is not looked at."""
        policy, tenants = self._policy_of("read_positions"), [tenant for tenant, _ in jobs]
        async with self._database.transaction(
            budget, policy, tenants=sorted(set(tenants)), reading=True
        ) as transaction:
            rows = await transaction.fetch(
                statement("read_positions"), tenants, [job_id for _, job_id in jobs]
            )
        return {(row["tenant_id"], row["id"]): _position(row) for row in rows}

    async def events(
        self, tenant: TenantId, job_id: JobId, *, after: Sequence, limit: int, budget: Budget
    ) -> list[Event]:
        """Up to `limit` durable events after a cursor, in order; none for a job that is not the tenant's."""
        policy = self._policy_of("read_events")
        async with self._database.transaction(budget, policy, tenants=[tenant], reading=True) as transaction:
            rows = await transaction.fetch(statement("read_events"), tenant, job_id, after, limit)
        return [_event(row) for row in rows]


def _position(row: Record) -> Position:
    return Position(
        state=JobState(row["state"]),
        epoch=row["epoch"],
        last_sequence=Sequence(row["last_sequence"]),
        worker_address=row["worker_address"],
        trimmed=row["trimmed"],
    )


async def _attempts(transaction: Transaction, tenant: TenantId, job_id: JobId) -> list[Attempted]:
    rows = await transaction.fetch(statement("read_attempts"), tenant, job_id)
    return [_attempted(row) for row in rows]


async def _reservations(transaction: Transaction, tenant: TenantId, job_id: JobId) -> list[Reservation]:
    rows = await transaction.fetch(statement("read_reservations"), tenant, job_id)
    return [Reservation(**{**dict(row), "settle_cause": row["settle_cause"] or ""}) for row in rows]


async def _content(transaction: Transaction, tenant: TenantId, job_id: JobId) -> JobContent:
    row = await transaction.fetchrow(statement("read_content"), tenant, job_id)
    assert row is not None, "read_content answers one row"
    answered = row["text"] is not None
    return JobContent(
        messages=None if row["messages"] is None else load_array(row["messages"]),
        sampling={} if row["sampling"] is None else load_object(row["sampling"]),
        result=_result(row) if answered else None,
        usage=_usage(row) if answered else None,
        attempt_number=row["attempt_number"],
        accept_time=row["accept_time"],
    )


def _result(row: Record) -> Result:
    return Result(
        text=row["text"],
        finish_reason=FinishReason(row["finish_reason"]),
        provider_model=row["provider_model"],
    )


def _usage(row: Record) -> Usage:
    return Usage(
        input_tokens=row["input_tokens"],
        cached_input_tokens=row["cached_input_tokens"],
        output_tokens=row["output_tokens"],
    )


def detail_of(
    row: Record,
    *,
    attempts: Many[Attempted] = (),
    reservations: Many[Reservation] = (),
    content: JobContent | None = None,
) -> JobDetail:
    """A job from its row of `read_job`."""
    return JobDetail(
        job=_view(row),
        limits=_limits(row),
        ledger=row["create_ledger"],
        running=_running(row),
        attempts=attempts,
        reservations=reservations,
        content=content,
    )


def _view(row: Record) -> JobView:
    return JobView(
        tenant=row["tenant_id"],
        job_id=row["id"],
        state=JobState(row["state"]),
        state_cause=row["state_cause"],
        epoch=row["epoch"],
        principal=row["principal"],
        model=row["model"],
        lane=row["lane"],
        create_time=row["create_time"],
        update_time=row["update_time"],
        end_time=row["end_time"],
        ready_time=row["ready_time"],
        attempt_count=row["counted_attempts"],
        cancel_request_time=row["cancel_request_time"],
        erase_time=row["erase_time"],
        labels=load_object(row["labels"]),
        traceparent=row["traceparent"],
        price_basis=PriceBasis(row["price_basis"]),
        rate_card=RateCard.from_json(load_object(row["rate_card"])),
        quoted_amount=row["quoted_amount"],
        captured=row["captured"],
        reserved=row["reserved"],
        cost=_total_cost(row),
        state_expire_time=row["state_expire_time"],
    )


def _total_cost(row: Record) -> ProviderCost:
    """The sum over attempts is known as badly as the one that is known worst."""
    worst_first = (CostBasis.UNKNOWN, CostBasis.ESTIMATED, CostBasis.REPORTED)
    basis = next((basis for basis in worst_first if basis in row["bases"]), None)
    return ProviderCost(amount=row["cost"], basis=basis, worst_case=row["worst_case"])


def _limits(row: Record) -> SpecLimits:
    return SpecLimits(
        max_output_tokens=row["max_output_tokens"],
        attempt_timeout=row["attempt_timeout"],
        queue_timeout=row["queue_timeout"],
        schedule_time=row["schedule_time"],
        max_attempts=row["max_attempts"],
        unknown_outcome_policy=UnknownOutcomePolicy(row["unknown_outcome_policy"]),
        max_charge=row["max_charge"],
        provider_cost_limit=row["provider_cost_limit"],
        priority=row["priority"],
    )


def _running(row: Record) -> Running | None:
    if row["worker_id"] is None:
        return None
    return Running(
        number=row["running_number"],
        worker_id=row["worker_id"],
        claim_time=row["claim_time"],
        send_time=row["send_time"],
    )


def _attempted(row: Record) -> Attempted:
    return Attempted(
        number=row["number"],
        worker_id=row["worker_id"],
        claim_time=row["claim_time"],
        send_time=row["send_time"],
        end_time=row["end_time"],
        end=AttemptEnd(
            outcome=AttemptOutcome(row["outcome"]),
            cause=row["cause"],
            counted=row["counted"],
            error_class=None if row["error_class"] is None else ErrorClass(row["error_class"]),
            error_message=row["error_message"],
            provider_request_id=row["provider_request_id"],
            first_token_time=row["first_token_time"],
            usage=_usage(row),
            cost=ProviderCost(
                amount=row["cost"],
                basis=None if row["cost_basis"] is None else CostBasis(row["cost_basis"]),
                worst_case=row["worst_case"],
            ),
        ),
    )


def _event(row: Record) -> Event:
    return Event(
        sequence=row["sequence"],
        kind=EventKind(row["kind"]),
        time=row["event_time"],
        attempt_number=row["attempt_number"],
        text=row["text"],
        attributes=load_object(row["attributes"]),
    )
