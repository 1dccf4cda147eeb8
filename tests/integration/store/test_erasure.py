"""Content can be erased for good once its job has ended; the money's history stays."""

import asyncio

import pytest

from jobs_store.errors import (
    ContentGone,
    JobNotTerminal,
)
from jobs_store.events import EventKind
from jobs_store.identifiers import START
from jobs_store.states import JobState
from tests.integration.store.decisions import (
    erase,
    job_of,
    position_of,
    require_invariants,
    require_refused,
    retry,
)
from tests.store import (
    CHARGE,
    TENANT,
    Store,
    decision_about,
    time_enough,
)

pytestmark = pytest.mark.every_postgres


async def test_erasure_takes_what_was_asked_and_answered_and_leaves_the_money(store: Store) -> None:
    await store.tenant()
    run = await store.succeeded()
    before = await job_of(store, run.job_id)
    assert await erase(store, decision_about(run.job_id))
    after = await job_of(store, run.job_id)
    assert after.content is not None
    assert (None, None) == (after.content.messages, after.content.result)
    assert (before.attempts, before.reservations) == (after.attempts, after.reservations)
    assert after.job.erase_time is not None
    assert after.job.erase_time == after.job.update_time
    assert (JobState.SUCCEEDED, CHARGE) == (after.job.state, after.job.captured)
    await require_invariants(store)


async def test_the_log_says_that_content_was_erased_after_its_end(store: Store) -> None:
    await store.tenant()
    run = await store.succeeded()
    end = (await position_of(store, run.job_id)).last_sequence
    await erase(store, decision_about(run.job_id))
    events = await store.reader.events(TENANT, run.job_id, after=START, limit=100, budget=time_enough())
    assert EventKind.TOKEN_DELTA not in {event.kind for event in events}
    terminal, erased = events[-2:]
    assert (end, True) == (terminal.sequence, terminal.ends_stream)
    assert (EventKind.CONTENT_ERASED, "ops", end) == (
        erased.kind,
        erased.attributes["principal"],
        erased.attributes["last_durable_sequence"],
    )
    assert erased.sequence == (await position_of(store, run.job_id)).last_sequence


async def test_content_that_is_gone_stays_gone(store: Store) -> None:
    await store.tenant()
    run = await store.failed()
    await erase(store, decision_about(run.job_id))
    before = await job_of(store, run.job_id)
    assert await erase(store, decision_about(run.job_id))
    assert before == await job_of(store, run.job_id)
    await require_refused(store, retry, decision_about(run.job_id), ContentGone)


async def test_only_content_of_a_job_that_has_ended_can_be_erased(store: Store) -> None:
    await store.tenant()
    for job_id in ((await store.held()).job_id, (await store.running()).job_id, await store.create()):
        await require_refused(store, erase, decision_about(job_id), JobNotTerminal)


async def test_of_an_erasure_and_a_retry_one_wins(store: Store) -> None:
    await store.tenant()
    for _ in range(6):
        run = await store.failed()
        erased, retried = await asyncio.gather(
            erase(store, decision_about(run.job_id)),
            retry(store, decision_about(run.job_id)),
            return_exceptions=True,
        )
        outcome = (erased is True, retried is True)
        assert outcome in {(True, False), (False, True)}
        assert isinstance(retried if erased is True else erased, (ContentGone, JobNotTerminal))
    await require_invariants(store)
