"""SIGKILL at each step, of the worker and of JobService: held there from outside, never by a failpoint."""

import asyncio
import signal
from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from budget.core import Budget
from hourglass.jobs.v1.job_pb2 import AttemptOutcome, CostBasis, Job, JobState
from launcher.components import SIMULATED
from launcher.stack import JOBS
from servicekit.wire_money import amount_of
from tests.postgres import TestDatabase
from tests.scenarios.kills import Step, assert_invariants, calls, held_there, route, victims
from tests.stacks import RETRY, START_LIMIT, Caller, calling, count, funds, spec_of, stack_on
from tests.waiting import eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(150)]

ENDED_BY_ANOTHER = {
    # step: what came of the attempts, and how often the provider was called
    Step.CLAIMED: (["NOT_SENT", "SUCCEEDED"], 1),
    Step.STARTED: (["UNKNOWN", "SUCCEEDED"], 1),
    Step.CALLED: (["UNKNOWN", "SUCCEEDED"], 2),
    Step.ANSWERED: (["UNKNOWN", "SUCCEEDED"], 2),
    Step.COMMITTED: (["SUCCEEDED"], 1),
}
LEASE = {"LEASE": "6", "CUT_OFF": "5", "RENEWAL_INTERVAL": "1"}
LONG_LEASE = {"LEASE": "40", "CUT_OFF": "30", "RENEWAL_INTERVAL": "1"}


def outcomes(job: Job) -> list[str]:
    return [AttemptOutcome.Name(a.outcome).removeprefix("ATTEMPT_OUTCOME_") for a in job.attempts]


async def created(caller: Caller) -> Mapping[Step, str]:
    """A job for each step."""
    made = [await caller.create(spec_of(step.value, unknown_outcome_policy=RETRY)) for step in Step]
    return dict(zip(Step, [answer.job.job_id for answer in made], strict=True))


async def all_ended(database: TestDatabase) -> bool:
    return len(Step) == await count(database, "finished_jobs")


async def assert_paid_once(database: TestDatabase, jobs: Mapping[Step, Job]) -> None:
    """Each was accepted once and paid once, and nothing is left in between."""
    assert {JobState.JOB_STATE_SUCCEEDED} == {job.state for job in jobs.values()}
    assert len(jobs) == await count(database, "job_results")
    has = await funds(database)
    assert Decimal(0) == has["reserved"]
    assert sum(amount_of(job.charge.captured_amount) for job in jobs.values()) == has["captured"] > 0
    assert has["funded"] == has["available"] + has["captured"]
    await assert_invariants(database)


@pytest.mark.scenario("S3", "M2")
async def test_a_worker_killed_at_any_step_leaves_its_job_to_another_and_is_not_paid_for_twice(
    database: TestDatabase, tmp_path: Path
) -> None:
    async with stack_on(database, tmp_path, workers=(), worker=LEASE) as stack:
        async with calling(stack.jobs) as caller, victims(stack, database) as held:
            ids = await created(caller)
            await held_there(stack, database, ids)
            for victim in held.values():
                stack.children[victim.name].signal(signal.SIGKILL)
            await asyncio.gather(*(stack.children[victim.name].ended() for victim in held.values()))
        models = route(f"{stack.models[SIMULATED]}/v1", [step.lane for step in Step])
        other = await stack.start_worker(
            "other", budget=Budget.for_work(START_LIMIT), environment={"ROUTES": models}
        )
        await eventually(partial(all_ended, database), within=30.0)
        await other.kill()  # after its commits
        async with calling(stack.jobs) as caller:
            jobs = {step: await caller.get(job_id) for step, job_id in ids.items()}
        seen = {step: (outcomes(job), len(calls(stack, step))) for step, job in jobs.items()}
    assert ENDED_BY_ANOTHER == seen
    for job in jobs.values():
        for lost in job.attempts[:-1]:
            may_have_run = AttemptOutcome.ATTEMPT_OUTCOME_UNKNOWN == lost.outcome
            assert may_have_run == (CostBasis.COST_BASIS_UNKNOWN == lost.provider_cost.basis)
            assert may_have_run == (amount_of(lost.provider_cost.unknown_worst_case_amount) > 0)
    await assert_paid_once(database, jobs)


@pytest.mark.scenario("S3")
async def test_a_job_goes_on_whatever_step_it_is_at_when_its_server_is_killed(
    database: TestDatabase, tmp_path: Path
) -> None:
    async with stack_on(database, tmp_path, workers=(), worker=LONG_LEASE) as stack:
        async with calling(stack.jobs) as caller, victims(stack, database) as held:
            ids = await created(caller)
            await held_there(stack, database, ids)
            await stack.children[JOBS].kill()
            for victim in held.values():
                victim.release()
            await eventually(partial(all_ended, database), within=30.0)
        other = await stack.start_jobs("jobs-2", budget=Budget.for_work(START_LIMIT))
        async with calling(other.address) as caller:
            jobs = {step: await caller.get(job_id) for step, job_id in ids.items()}
        assert dict.fromkeys(Step, 1) == {step: len(calls(stack, step)) for step in Step}
    assert {step: ["SUCCEEDED"] for step in Step} == {step: outcomes(job) for step, job in jobs.items()}
    await assert_paid_once(database, jobs)
