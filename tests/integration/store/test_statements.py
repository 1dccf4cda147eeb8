"""Every statement of the store runs, once, as the role that it is for."""

import asyncio
from dataclasses import replace
from decimal import Decimal
from uuid import UUID

import pytest

from jobs_store.cancellation import CancelOutcome
from jobs_store.endings import Verdict
from jobs_store.errors import InsufficientFunds
from jobs_store.events import EventKind
from jobs_store.identifiers import START, JobId, new_quote_id, sequence
from jobs_store.quotes import NewQuote, QuotedModel
from jobs_store.reading import JobFilter
from jobs_store.states import AttemptOutcome, JobState
from tests.store import (
    CARD,
    CHARGE,
    LANE,
    OVER,
    RESERVED,
    TENANT,
    Store,
    acceptance_of,
    deltas_of,
    hold_of,
    new_job,
    price,
    release_of,
    return_of,
    succeeded,
    time_enough,
    token_of,
)

pytestmark = pytest.mark.every_postgres

LAST_ID = JobId(UUID(int=2**128 - 1))


async def test_a_job_is_created_claimed_started_and_accepted(store: Store) -> None:
    await store.tenant()
    job = new_job(key="one")
    await store.creation.create(job, budget=time_enough())
    known = await store.creation.find_key(TENANT, job.key.digest, budget=time_enough())
    assert known is not None
    assert job.job_id == known.job_id
    claimed = await store.claim_one()
    assert job.job_id == claimed.job_id
    assert [Verdict.OK] == [started.verdict for started in await store.start(claimed)]
    assert [Verdict.OK] == await store.runs.append([deltas_of(claimed, "Hel", "lo.")], budget=time_enough())
    assert [Verdict.OK] == await store.runs.renew([token_of(claimed)], lease=30.0, budget=time_enough())
    (ended,) = await store.runs.finish([acceptance_of(claimed)], budget=time_enough())
    assert (Verdict.OK, CHARGE) == (ended.verdict, ended.captured)
    detail = await store.reader.get(
        TENANT, job.job_id, budget=time_enough(), with_attempts=True, with_content=True
    )
    assert JobState.SUCCEEDED == detail.job.state
    assert [AttemptOutcome.SUCCEEDED] == [attempt.end.outcome for attempt in detail.attempts]
    assert detail.content is not None
    assert detail.content.result is not None
    assert "Hello." == detail.content.result.text
    assert [(RESERVED, CHARGE)] == [(held.amount, held.captured) for held in detail.reservations]
    tenant = await store.tenants.get(TENANT, budget=time_enough())
    assert (0, 0, Decimal(0), CHARGE) == (tenant.running, tenant.queued, tenant.reserved, tenant.captured)
    assert AttemptOutcome.SUCCEEDED == await store.runs.outcome_of(token_of(claimed), 1, budget=time_enough())


async def test_events_are_read_back_in_order(store: Store) -> None:
    await store.tenant()
    claimed = await store.running()
    await store.runs.append([deltas_of(claimed, "Hel", "lo.")], budget=time_enough())
    (ended,) = await store.runs.finish([acceptance_of(claimed)], budget=time_enough())
    events = await store.reader.events(TENANT, claimed.job_id, after=START, limit=100, budget=time_enough())
    assert [event.sequence for event in events] == sorted({event.sequence for event in events})
    position = await store.reader.position(TENANT, claimed.job_id, budget=time_enough())
    assert ended.last_sequence == events[-1].sequence == position.last_sequence
    assert events[-1].ends_stream


async def test_jobs_are_listed_newest_first(store: Store) -> None:
    await store.tenant()
    made = [await store.create() for _ in range(3)]
    await store.cancellation.cancel(TENANT, made[1], principal="ada", reason="", budget=time_enough())
    page = await store.reader.page(TENANT, JobFilter(), before=LAST_ID, size=10, budget=time_enough())
    assert list(reversed(made)) == [view.job_id for view in page]


async def test_a_job_waits_again_after_a_transient_error(store: Store) -> None:
    await store.tenant()
    claimed = await store.running()
    (ended,) = await store.runs.requeue([return_of(claimed)], budget=time_enough())
    assert Verdict.OK == ended.verdict
    again = await store.claim_one()
    assert (2, ended.last_sequence) == (again.attempt_number, again.last_sequence)


async def test_a_held_job_takes_its_late_result(store: Store) -> None:
    await store.tenant()
    claimed = await store.held()
    (ended,) = await store.runs.finish([acceptance_of(claimed)], budget=time_enough())
    assert Verdict.OK == ended.verdict
    detail = await store.reader.get(TENANT, claimed.job_id, budget=time_enough(), with_attempts=True)
    assert JobState.SUCCEEDED == detail.job.state
    assert [AttemptOutcome.SUCCEEDED] == [attempt.end.outcome for attempt in detail.attempts]


async def test_cancel_answers_what_happened(store: Store) -> None:
    await store.tenant()
    held, running, queued = (await store.held()).job_id, (await store.running()).job_id, await store.create()
    answers = [
        await store.cancellation.cancel(TENANT, job_id, principal="ada", reason="", budget=time_enough())
        for job_id in (queued, held, running, running, queued)
    ]
    assert [
        CancelOutcome.CANCELLED,
        CancelOutcome.CANCELLED,
        CancelOutcome.CANCEL_REQUESTED,
        CancelOutcome.CANCEL_REQUESTED,
        CancelOutcome.ALREADY_TERMINAL,
    ] == answers


async def test_the_reaper_ends_what_nobody_else_ends(store: Store) -> None:
    await store.tenant()
    await store.running(lease=OVER)
    assert 1 == (await store.reaper.reap(budget=time_enough())).taken_over
    await store.claim_one()
    await store.create(queue_timeout=0.000001)
    assert 1 == (await store.reaper.reap(budget=time_enough())).expired
    held = await store.running()
    await store.runs.requeue([hold_of(held, timeout=0.0)], budget=time_enough())
    assert 1 == (await store.reaper.reap(budget=time_enough())).hold_ended
    assert 0 == await store.reaper.ensure_partitions(weeks_ahead=1, budget=time_enough())


async def test_a_run_that_lost_its_lease_writes_its_cost(store: Store) -> None:
    await store.tenant()
    claimed = await store.running(lease=OVER)
    await store.reaper.reap(budget=time_enough())
    assert await store.runs.record_lost_attempt(token_of(claimed), 1, succeeded(), budget=time_enough())


async def test_a_parked_lane_gives_no_jobs(store: Store) -> None:
    await store.tenant()
    await store.create()
    await store.runs.park_lane(LANE, duration=60.0, cause="HTTP_429", budget=time_enough())
    assert [] == await store.claim()


async def test_a_quote_is_used_once(store: Store) -> None:
    await store.tenant()
    quote_id = new_quote_id()
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
        quote_id=quote_id,
        principal="ada",
        input_token_bound=10,
        max_output_tokens=10,
        models=[line],
        lifetime=60.0,
    )
    await store.quotes.create(quote, budget=time_enough())
    assert line == (await store.quotes.usable(TENANT, quote_id, budget=time_enough())).line("fast")
    await store.create(price=price(quote_id=quote_id))


async def test_a_job_is_read_as_it_was_at_one_moment(store: Store) -> None:
    await store.tenant()
    run = await store.running()

    async def go_on() -> None:
        nonlocal run
        for _ in range(20):
            await store.runs.requeue([release_of(run)], budget=time_enough())
            run = await store.claim_one()

    async def look() -> None:
        for _ in range(40):
            detail = await store.reader.get(TENANT, run.job_id, budget=time_enough(), with_attempts=True)
            ended = [attempt.number for attempt in detail.attempts]
            running = [] if detail.running is None else [detail.running.number]
            assert list(range(1, 1 + len(ended + running))) == ended + running

    await asyncio.gather(go_on(), look(), look(), look())


async def test_a_refusal_for_lack_of_funds_says_what_was_available(store: Store) -> None:
    await store.tenant(funds=RESERVED + RESERVED / 4)
    outcomes = await asyncio.gather(*(store.create() for _ in range(10)), return_exceptions=True)
    told = {refused.metadata["available"] for refused in outcomes if isinstance(refused, InsufficientFunds)}
    assert {f"{RESERVED / 4:.9f}"} == told


async def test_what_is_sent_again_because_its_answer_was_lost_is_written_once(store: Store) -> None:
    """Start step, events and an ending that brings events which are durable already."""
    await store.tenant()
    run = await store.running()
    (again,) = await store.start(run)
    assert Verdict.OK == again.verdict
    first, both = deltas_of(run, "Hel"), deltas_of(run, "Hel", "lo.")
    for append in (first, first, both):
        assert [Verdict.OK] == await store.runs.append([append], budget=time_enough())
    acceptance = acceptance_of(run)
    whole = replace(acceptance, events=(*both.events, *acceptance.events))
    (ended,) = await store.runs.finish([whole], budget=time_enough())
    assert Verdict.OK == ended.verdict

    events = await store.reader.events(TENANT, run.job_id, after=START, limit=100, budget=time_enough())
    sequences = [event.sequence for event in events if event.sequence > sequence(run.epoch, 0)]
    assert [sequence(run.epoch, number) for number in range(1, len(sequences) + 1)] == sequences
    assert ["Hel", "lo."] == [event.text for event in events if event.text]
    assert ended.last_sequence == sequences[-1]
    sent = [event for event in events if event.kind is EventKind.ATTEMPT_SENT]
    assert [again.send_time] == [event.time for event in sent]
