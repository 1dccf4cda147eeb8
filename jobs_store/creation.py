"""Creating jobs, once a key, with their money set aside in the same transaction."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from budget.core import Budget
from budget.policy import Policy
from budget.postgres import Database, Record, Transaction
from budget.retry import Try
from jobs_store.errors import InsufficientFunds, QueueFull, QuoteUsed, TenantNotFound
from jobs_store.funds_line import left_nothing, moving_line
from jobs_store.identifiers import JobId, TenantId
from jobs_store.job_metrics import JobMetrics
from jobs_store.new_job import NewJob
from jobs_store.statements import statement
from jobs_store.stored_json import dump

PolicyOf = Callable[[str], Policy]
"""Answers the policy of a store method by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKey:
    """What a live idempotency key made, and what its spec is compared by."""

    job_id: JobId
    hash_version: int
    request_digest: bytes
    expire_time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """When a job was made, when it may be claimed, and until when its key is remembered."""

    create_time: datetime
    ready_time: datetime
    key_expire_time: datetime


class KeyTaken(Exception):
    """Another create took the idempotency key first; look it up."""


class JobCreation:
    """Creates jobs as the request role."""

    def __init__(self, database: Database, policy_of: PolicyOf, *, metrics: JobMetrics | None = None) -> None:
        self._database = database
        self._policy_of = policy_of
        self._metrics = metrics or JobMetrics()
        self._line = moving_line()

    async def find_key(self, tenant: TenantId, digest: bytes, *, budget: Budget) -> KnownKey | None:
        """What the key made, if it lives."""
        policy = self._policy_of("find_idempotency_key")

        async def once(this: Try) -> Record | None:
            async with self._database.transaction(
                budget, policy, tenants=[tenant], attempt=this.attempt, reading=True
            ) as transaction:
                return await transaction.fetchrow(statement("find_idempotency_key"), tenant, digest)

        row = await self._line.run(once, budget=budget, policy=policy, retryable=left_nothing)
        return None if row is None else KnownKey(**dict(row))

    async def create(self, job: NewJob, *, budget: Budget) -> Created:
        """Make the job, or nothing.

        Raises:
            KeyTaken: another create has used the key.
            QuoteUsed: another create has used the quote, or its time ended meanwhile.
            TenantNotFound, QueueFull, InsufficientFunds: as they say.
            CommitOutcomeUnknown: the connection ended during the commit; the key tells what came of it.
        """
        policy = self._policy_of("create_job")

        async def once(this: Try) -> Created:
            return await self._create(job, policy, this.attempt, budget=budget)

        created = await self._line.run(once, budget=budget, policy=policy, retryable=left_nothing)
        self.count(job)
        return created

    def count(self, job: NewJob) -> None:
        """Counts a job as created. For who finds out that a commit holds whose answer was lost."""
        self._metrics.created(job.price.lane, job.price.quoted_amount)

    async def _create(self, job: NewJob, policy: Policy, attempt: int, *, budget: Budget) -> Created:
        async with self._database.transaction(
            budget, policy, tenants=[job.tenant], attempt=attempt
        ) as transaction:
            row = await transaction.fetchrow(statement("create_job"), dump(job.to_json()))
            assert row is not None, "create_job answers one row"
            _refuse_what_did_not_happen(job, row)
            if not row["funds_sufficed"]:
                raise await _insufficient_funds(transaction, job)
        return Created(
            create_time=row["create_time"],
            ready_time=row["ready_time"],
            key_expire_time=row["key_expire_time"],
        )


def _refuse_what_did_not_happen(job: NewJob, row: Record) -> None:
    """Each step of the statement builds on the one before: the first that is missing names the reason."""
    if not row["key_was_free"]:
        raise KeyTaken
    if job.price.quote_id is not None and not row["quote_was_free"]:
        raise QuoteUsed(job.price.quote_id)
    if not row["tenant_exists"]:
        raise TenantNotFound(job.tenant)
    if not row["queue_had_room"]:
        raise QueueFull(job.tenant)


async def _insufficient_funds(transaction: Transaction, job: NewJob) -> InsufficientFunds:
    """Reads what is available now: the create's own snapshot may be older than what it waited for."""
    row = await transaction.fetchrow(statement("read_tenant"), job.tenant)
    assert row is not None, "a tenant that exists has funds"
    return InsufficientFunds(tenant=job.tenant, required=job.price.quoted_amount, available=row["available"])
