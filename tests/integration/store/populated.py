"""A healthy database with one job of each kind, by name, and what belongs to it."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from jobs_store.attempts import ProviderCost
from jobs_store.calls import CallEnd, CallStore, NewCall, Settlement
from jobs_store.identifiers import CallId, JobId, TenantId, new_call_id, new_quote_id
from jobs_store.quotes import NewQuote, QuotedModel
from jobs_store.states import AttemptOutcome
from tests.integration.store.locks import superuser
from tests.store import (
    CARD,
    CHARGE,
    LANE,
    RESERVED,
    TENANT,
    WORST_CASE,
    Store,
    acceptance_of,
    decision_about,
    policy_of,
    price,
    return_of,
    time_enough,
)

OTHER: Final = TenantId("zeta")
"""A tenant with one job, and with nothing old in its audit log."""
CALLER: Final = TenantId("caller")
"""A tenant that only makes short calls."""
IDLE: Final = TenantId("idle")
"""A tenant without anything."""
DECISION: Final = "again"
"""The request_id of the one decision of an operator."""

_AN_OLD_LINE = """
INSERT INTO hourglass.audit_log (tenant_id, id, action, actor, subject, create_time)
SELECT $1, hourglass.first_id_of(now() - interval '1 day'), 'QUOTE', 'ada', 'quote', now() - interval '1 day'
"""


async def populate(store: Store) -> Mapping[str, str]:
    """Makes it; answers the ids by name."""
    for tenant in (TENANT, OTHER, CALLER):
        await store.tenant(tenant)
    await store.tenant(IDLE, funds=Decimal(0))
    jobs = {
        **await _finished(store),
        **await _unfinished(store),
        "other": await store.create(OTHER),
        **await _calls(store),
    }
    async with superuser(store) as connection:
        await connection.execute(_AN_OLD_LINE, TENANT)
    return {name: str(job) for name, job in jobs.items()}


async def _finished(store: Store) -> Mapping[str, JobId]:
    """Succeeded, after a failed attempt, beyond its reservation, erased, failed, cancelled."""
    succeeded = (await store.succeeded()).job_id
    await store.runs.requeue([return_of(await store.running())], budget=time_enough())
    (second,) = await store.claim()
    await store.start(second)
    await store.runs.finish([acceptance_of(second)], budget=time_enough())
    dear = await store.running()
    await store.runs.finish([acceptance_of(dear, charge=RESERVED + CHARGE)], budget=time_enough())
    erased = (await store.succeeded()).job_id
    await store.decisions.erase(decision_about(erased, request_id="erase"), budget=time_enough())
    failed = (await store.failed()).job_id
    cancelled = await store.create()
    await store.cancellation.cancel(TENANT, cancelled, principal="ada", reason="", budget=time_enough())
    return {
        "succeeded": succeeded,
        "second": second.job_id,
        "dear": dear.job_id,
        "erased": erased,
        "failed": failed,
        "cancelled": cancelled,
    }


async def _unfinished(store: Store) -> Mapping[str, JobId]:
    """Held, running, retried by an operator, priced by a quote, queued."""
    held = (await store.held()).job_id
    running = (await store.running()).job_id
    retried = (await store.failed()).job_id
    await store.decisions.retry(decision_about(retried, request_id=DECISION), budget=time_enough())
    return {
        "held": held,
        "running": running,
        "retried": retried,
        "quoted": await _quoted(store),
        "queued": await store.create(),
    }


async def _quoted(store: Store) -> JobId:
    line = QuotedModel(
        model="fast",
        provider="simulated",
        lane=LANE,
        price_version="1",
        amount=RESERVED,
        provider_amount=RESERVED,
        rate_card=CARD,
        provider_rate_card=CARD,
    )
    quote = NewQuote(
        tenant=TENANT,
        quote_id=new_quote_id(),
        principal="ada",
        input_token_bound=10,
        max_output_tokens=10,
        models=[line],
        lifetime=60.0,
    )
    await store.quotes.create(quote, budget=time_enough())
    return await store.create(price=price(quote_id=quote.quote_id))


async def _calls(store: Store) -> Mapping[str, CallId]:
    """Settled, beyond its reservation, open, and one of another tenant."""
    calls = CallStore(store.request, policy_of)
    names = {"settled": TENANT, "dear_call": TENANT, "open": TENANT, "others_call": CALLER}
    made = {name: await _call(calls, tenant) for name, tenant in names.items()}
    for name, charge in {"settled": RESERVED / 2, "dear_call": 2 * RESERVED, "others_call": RESERVED}.items():
        end = CallEnd(
            outcome=AttemptOutcome.UNKNOWN,
            cause="WORKER_GONE",
            charge=charge,
            cost=ProviderCost.unknown(WORST_CASE),
        )
        await calls.settle(Settlement(tenant=names[name], call_id=made[name], end=end), budget=time_enough())
    return made


async def _call(calls: CallStore, tenant: TenantId) -> CallId:
    call = NewCall(
        tenant=tenant,
        call_id=new_call_id(),
        principal="ada",
        model="fast",
        lane=LANE,
        time_left=60.0,
        price_version="1",
        amount=RESERVED,
        worst_case=WORST_CASE,
    )
    await calls.reserve(call, budget=time_enough())
    return call.call_id
