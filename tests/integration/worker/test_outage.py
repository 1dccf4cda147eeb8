"""Postgres goes away while a run goes on."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from jobs_store.states import JobState, UnknownOutcomePolicy
from tests.integration.worker.workers import outcomes
from tests.proxied import proxy_to, through
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.integration.worker.workers import Bench

DELTA = b'"token_count"'
COMMIT_WAITS_AT_THE_GATE = """
CREATE FUNCTION hourglass.wait_at_the_gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(42);
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER commit_waits AFTER DELETE ON hourglass.jobs DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION hourglass.wait_at_the_gate();
"""


@pytest.mark.scenario("O8")
async def test_an_answer_that_was_paid_for_is_accepted_when_postgres_is_back(bench: Bench) -> None:
    """The whole end of the call falls into the outage; it is accepted afterwards, and not bought twice."""
    job = await bench.job("simulated:tokens=10,tps=10")
    async with (
        proxy_to(bench.database.worker) as proxy,
        bench.worker(
            database_url=through(proxy, bench.database.worker),
            renewal_interval=0.2,
            cut_off=20.0,
            policies='{"postgres": {"limit": 0.5}}',
        ),
    ):
        key = await bench.sent(job)
        proxy.black_hole = True
        proxy.sever()

        async def answered() -> bool:
            call = await bench.seen(key)
            return call is not None and call["state"] == "finished"

        await eventually(answered, within=10.0)
        assert JobState.RUNNING is (await bench.get(job)).job.state
        proxy.sever()
        proxy.black_hole = False
        detail = await bench.ends(job, within=20.0)
    assert (JobState.SUCCEEDED, ["SUCCEEDED"]) == (detail.job.state, outcomes(detail))
    assert (Decimal(0), detail.job.captured) == await bench.funds()


@pytest.mark.scenario("S3")
async def test_an_acceptance_whose_commit_was_not_answered_is_found_out(bench: Bench) -> None:
    """The connection breaks during COMMIT, which holds all the same: accepted once, captured once."""
    await bench.administer(COMMIT_WAITS_AT_THE_GATE)
    job = await bench.job("simulated-fast:tokens=10")
    async with (
        proxy_to(bench.database.worker) as proxy,
        bench.gate() as gate,
        bench.worker(database_url=through(proxy, bench.database.worker)) as worker,
    ):
        await eventually(gate.waiting, within=10.0)
        proxy.sever()
        await gate.open()
        detail = await bench.ends(job)
        await eventually(lambda: worker.free_slots == 8, within=10.0)
    detail = await bench.get(job)
    assert (JobState.SUCCEEDED, ["SUCCEEDED"]) == (detail.job.state, outcomes(detail))
    assert (Decimal(0), detail.job.captured) == await bench.funds()
    assert 1 == sum(event.ends_stream for event in await bench.events(job))


@pytest.mark.scenario("U5")
async def test_text_whose_storing_was_not_answered_is_told_once_when_the_answer_comes_late(
    bench: Bench,
) -> None:
    """Deltas were stored and nobody heard; the job is held meanwhile, and its late result brings the rest."""
    async with (
        proxy_to(bench.database.worker) as proxy,
        bench.worker(
            database_url=through(proxy, bench.database.worker),
            renewal_interval=0.2,
            policies='{"postgres": {"limit": 0.5}}',
        ),
    ):
        # From the first delta on its way into the log. From any other moment on, what is withheld may be the
        # answer to a Parse, on a connection that never appended, and then no delta is sent at all.
        proxy.when(DELTA, proxy.withhold)
        job = await bench.job("simulated:tokens=20,tps=10", unknown_outcome_policy=UnknownOutcomePolicy.HOLD)

        async def text_is_stored() -> bool:
            return any(event.text for event in await bench.events(job))

        await eventually(text_is_stored)
        assert not proxy.armed
        await bench.take_over(job)
        proxy.sever()
        proxy.flow()
        await bench.ends(job)
    detail, events = await bench.get(job), await bench.events(job)
    assert JobState.SUCCEEDED is detail.job.state
    assert detail.content is not None
    assert detail.content.result is not None
    assert detail.content.result.text == "".join(event.text or "" for event in events)
    assert ["LATE_RESULT"] == [
        event.attributes["cause"] for event in events if event.attributes.get("cause") == "LATE_RESULT"
    ]


async def test_a_worker_starts_without_postgres_and_works_once_it_answers(bench: Bench) -> None:
    """It serves from the start, is ready later, and then runs what waits."""
    job = await bench.job("simulated-fast:tokens=5")
    async with proxy_to(bench.database.worker) as proxy:
        proxy.black_hole = True
        async with bench.worker(database_url=through(proxy, bench.database.worker)) as worker:
            assert not worker.server.health.ready
            proxy.sever()
            proxy.black_hole = False
            detail = await bench.ends(job, within=20.0)
            await eventually(lambda: worker.server.health.ready, within=5.0)
    assert JobState.SUCCEEDED is detail.job.state
