"""A job for the benches, as the job service would make it."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

from bench.jobs.environment import CARD
from budget.policy import Policy
from jobs_store.idempotency import HASH_VERSION, key_digest, request_digest
from jobs_store.identifiers import new_job_id
from jobs_store.new_job import Key, NewJob, Origin, Price
from jobs_store.states import PriceBasis, UnknownOutcomePolicy

if TYPE_CHECKING:
    from jobs_store.identifiers import TenantId

LIMIT: Final = 5.0


def policy_of(method: str) -> Policy:
    """The policy of a statement."""
    return Policy(dependency="postgres", method=method, limit=LIMIT)


def new_job(tenant: TenantId, *, lane: str) -> NewJob:
    """A job with a key of its own."""
    job_id, model = new_job_id(), lane.partition("/")[2]
    return NewJob(
        tenant=tenant,
        job_id=job_id,
        key=Key(
            digest=key_digest(str(job_id)),
            hash_version=HASH_VERSION,
            request_digest=request_digest({"model": model}),
            lifetime=3600.0,
        ),
        origin=Origin(principal="ada", traceparent="", tracestate="", ledger="postgres/create_job"),
        price=_price(lane),
        model=model,
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


def _price(lane: str) -> Price:
    return Price(
        basis=PriceBasis.LIVE,
        version="1",
        quote_id=None,
        rate_card=CARD,
        provider_rate_card=CARD,
        provider=lane.partition("/")[0],
        lane=lane,
        input_token_bound=200,
        input_token_estimate=90,
        quoted_amount=Decimal("0.01"),
        attempt_worst_case=Decimal("0.001"),
    )
