"""A job that is about to be made, and how it looks right after."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from jobs_service.domain.caller import Caller
from jobs_service.domain.draft import SpecDraft, canonical
from jobs_service.domain.errors import NewerReleaseNeeded
from jobs_service.domain.pricing import cost_limit, unknown_outcome_policy
from jobs_service.domain.spec import Spec
from jobs_store.attempts import ProviderCost
from jobs_store.creation import Created
from jobs_store.idempotency import HASH_VERSION, key_digest, request_digest
from jobs_store.identifiers import JobId, QuoteId
from jobs_store.new_job import Key, NewJob, Origin, Price
from jobs_store.reading import JobView
from jobs_store.states import Cause, JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest:
    """A create, checked. `draft` is what the key is compared by."""

    idempotency_key: str
    draft: SpecDraft
    spec: Spec
    quote_id: QuoteId | None

    @property
    def key_digest(self) -> bytes:
        """What the key is looked up by."""
        return key_digest(self.idempotency_key)

    def request_digest(self, version: int) -> bytes:
        """What the spec is compared by, under the version that a key was made with.

        NewerReleaseNeeded when only a later release knows that version.
        """
        if version > HASH_VERSION:
            raise NewerReleaseNeeded(hash_version=version)
        return request_digest(canonical(self.draft), version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the service decides where a spec does not. Seconds, dollars."""

    key_lifetime: float
    retry_unknown_below: Decimal


def new_job(
    request: CreateRequest, price: Price, *, job_id: JobId, caller: Caller, ledger: str, terms: Terms
) -> NewJob:
    """Everything that the create writes."""
    spec = request.spec
    return NewJob(
        tenant=caller.tenant,
        job_id=job_id,
        key=Key(
            digest=request.key_digest,
            hash_version=HASH_VERSION,
            request_digest=request.request_digest(HASH_VERSION),
            lifetime=terms.key_lifetime,
        ),
        origin=Origin(
            principal=caller.user,
            traceparent=caller.traceparent,
            tracestate=caller.tracestate,
            ledger=ledger,
        ),
        price=price,
        model=spec.model,
        messages=spec.messages,
        sampling=spec.sampling,
        max_output_tokens=spec.max_output_tokens,
        attempt_timeout=spec.attempt_timeout,
        queue_timeout=spec.queue_timeout,
        max_attempts=spec.max_attempts,
        unknown_outcome_policy=unknown_outcome_policy(spec, price, retry_below=terms.retry_unknown_below),
        provider_cost_limit=cost_limit(spec, price),
        max_charge=spec.max_charge,
        priority=spec.priority,
        schedule_time=spec.schedule_time,
        labels=spec.labels,
    )


def view_of(job: NewJob, created: Created) -> JobView:
    """The job as its create left it."""
    return JobView(
        tenant=job.tenant,
        job_id=job.job_id,
        state=JobState.QUEUED,
        state_cause=Cause.CREATED,
        epoch=1,
        principal=job.origin.principal,
        model=job.model,
        lane=job.price.lane,
        create_time=created.create_time,
        update_time=created.create_time,
        end_time=None,
        ready_time=created.ready_time,
        attempt_count=0,
        cancel_request_time=None,
        erase_time=None,
        labels=job.labels,
        traceparent=job.origin.traceparent,
        price_basis=job.price.basis,
        rate_card=job.price.rate_card,
        quoted_amount=job.price.quoted_amount,
        captured=Decimal(0),
        reserved=job.price.quoted_amount,
        cost=ProviderCost.nothing(),
        state_expire_time=created.ready_time + timedelta(seconds=job.queue_timeout),
    )
