"""An answer that a provider has kept is found by the attempt's key, accepted once and not bought again."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from jobs_store.events import EventKind
from jobs_store.operator_decisions import Resolution
from jobs_store.states import CostBasis, JobState, UnknownOutcomePolicy
from tests.integration.worker.workers import attempts, outcomes
from tests.store import TENANT, decision_about, time_enough
from tests.waiting import eventually

if TYPE_CHECKING:
    from jobs_store.identifiers import JobId
    from jobs_store.reading import JobDetail
    from tests.integration.worker.workers import Bench

KEPT = "simulated-reset-mid:kept=1,tokens=12,tps=0"
LOST = "simulated-reset-mid:tokens=12,tps=0"
HOLD = UnknownOutcomePolicy.HOLD
LOOK_UP = "/chat/completions/by-request/{key}"


def asking(bench: Bench, **changed: Any) -> dict[str, Any]:
    """Settings of a worker whose provider can be asked."""
    return {"routes": (bench.route(look_up_path=LOOK_UP),), "look_up_interval": 0.1, **changed}


async def held(bench: Bench, model: str) -> JobId:
    """A job whose answer broke off, on hold by a worker that does not ask."""
    job = await bench.job(model, unknown_outcome_policy=HOLD)
    async with bench.worker():
        await bench.reaches(job, JobState.HELD)
    return job


async def require_whole_answer(bench: Bench, detail: JobDetail) -> None:
    """Accepted, paid for once, and the log has all of the text, each piece in its place."""
    assert (JobState.SUCCEEDED, ["SUCCEEDED"]) == (detail.job.state, outcomes(detail))
    assert detail.content is not None
    assert detail.content.result is not None
    assert 12 == len(detail.content.result.text.split())
    assert CostBasis.REPORTED is attempts(detail)[0].end.cost.basis
    text = ""
    for event in await bench.events(detail.job.job_id):
        if event.kind is EventKind.TOKEN_DELTA:
            assert len(text) == event.attributes["offset"]
            text += event.text or ""
    assert detail.content.result.text == text
    assert (Decimal(0), detail.job.captured) == await bench.funds()
    assert detail.job.captured > 0


@pytest.mark.parametrize("policy", UnknownOutcomePolicy)
async def test_a_run_asks_before_it_says_that_it_does_not_know(
    bench: Bench, policy: UnknownOutcomePolicy
) -> None:
    job = await bench.job(KEPT, unknown_outcome_policy=policy)
    async with bench.worker(**asking(bench)):
        detail = await bench.ends(job)
    await require_whole_answer(bench, detail)


@pytest.mark.scenario("U3")
async def test_a_held_job_is_ended_by_the_answer_that_its_provider_kept(bench: Bench) -> None:
    job = await held(bench, KEPT)
    async with bench.worker(**asking(bench)):
        detail = await bench.ends(job)
    await require_whole_answer(bench, detail)


async def test_two_workers_that_ask_accept_an_answer_once(bench: Bench) -> None:
    jobs = [await held(bench, KEPT) for _ in range(3)]
    async with bench.worker(**asking(bench)), bench.worker(**asking(bench, name="worker-2")):
        details = [await bench.ends(job) for job in jobs]
    assert [["SUCCEEDED"]] * 3 == [outcomes(detail) for detail in details]
    assert sum(detail.job.captured for detail in details) == (await bench.funds())[1]


async def test_a_provider_that_knows_no_answer_leaves_the_job_to_its_policy(bench: Bench) -> None:
    job = await held(bench, LOST)
    async with bench.worker(**asking(bench)):
        asked = "SELECT count(*) FROM hourglass.jobs WHERE look_up_time > clock_timestamp() - interval '1 s'"

        async def was_asked() -> bool:
            return await bench.count(asked) == 1

        await eventually(was_asked)
        before = await bench.get(job)
        await eventually(was_asked)
    assert JobState.HELD is before.job.state
    assert before == await bench.get(job)


async def test_an_answer_that_comes_after_an_operators_decision_is_not_accepted(bench: Bench) -> None:
    job = await held(bench, KEPT)
    await bench.store.decisions.resolve(decision_about(job), Resolution.FAIL, budget=time_enough())
    async with bench.worker(**asking(bench)):
        await bench.ends(await bench.job("simulated-fast"))
    detail = await bench.get(job)
    assert (JobState.FAILED, ["UNKNOWN"]) == (detail.job.state, outcomes(detail))
    assert TENANT == detail.job.tenant


async def test_a_provider_that_cannot_be_asked_is_not(bench: Bench) -> None:
    job = await held(bench, KEPT)
    async with bench.worker(look_up_interval=0.05):
        await bench.ends(await bench.job("simulated-fast"))
    assert JobState.HELD is (await bench.get(job)).job.state
    assert 0 == await bench.count("SELECT count(*) FROM hourglass.jobs WHERE look_up_time IS NOT NULL")
