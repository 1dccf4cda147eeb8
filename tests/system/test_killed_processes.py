"""Processes that are killed: what they had in hand is finished by others, once, and paid for once."""

import signal
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest

from budget.core import Budget
from hourglass.jobs.v1.job_pb2 import AttemptOutcome, CostBasis, Job, JobState
from hourglass_client.transcript import Transcript
from launcher.stack import JOBS, Stack
from servicekit.wire_money import amount_of
from tests.postgres import TestDatabase
from tests.stacks import RETRY, START_LIMIT, calling, count, funds, spec_of, stack_on

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]
SLOW_ENOUGH_TO_KILL = "simulated:tokens=60,tps=20"


def kinds(transcript: Transcript) -> Sequence[str]:
    return [str(event.WhichOneof("event")) for event in transcript.events]


def workers(transcript: Transcript) -> Sequence[str]:
    return [e.attempt_started.worker_id for e in transcript.events if e.HasField("attempt_started")]


def ended(transcript: Transcript) -> Sequence[str]:
    return [
        AttemptOutcome.Name(event.attempt_ended.outcome).removeprefix("ATTEMPT_OUTCOME_")
        for event in transcript.events
        if event.HasField("attempt_ended")
    ]


def outcomes(job: Job) -> Sequence[str]:
    return [AttemptOutcome.Name(a.outcome).removeprefix("ATTEMPT_OUTCOME_") for a in job.attempts]


class Killer:
    """Kills the worker that runs a job when `after` tokens of its first attempt have been seen."""

    def __init__(self, stack: Stack, after: int) -> None:
        self.killed = ""
        self._stack = stack
        self._after = after

    def __call__(self, transcript: Transcript) -> bool:
        if not self.killed and transcript.token_count >= self._after:
            self.killed = workers(transcript)[-1]
            self._stack.children[self.killed].signal(signal.SIGKILL)
        return False


@pytest.mark.scenario("S3", "W7")
async def test_a_job_whose_worker_is_killed_in_mid_answer_is_finished_by_another_once(
    database: TestDatabase, tmp_path: Path
) -> None:
    two = ("worker-1", "worker-2")
    async with stack_on(database, tmp_path, workers=two) as stack, calling(stack.jobs) as caller:
        created = await caller.create(spec_of(SLOW_ENOUGH_TO_KILL, unknown_outcome_policy=RETRY))
        killer = Killer(stack, after=10)
        transcript = await caller.watch(created.job.job_id, seen=killer)
        job = await caller.get(created.job.job_id)

    (first, second) = job.attempts
    assert JobState.JOB_STATE_SUCCEEDED == job.state
    assert ["UNKNOWN", "SUCCEEDED"] == outcomes(job)
    assert killer.killed == first.worker_id != second.worker_id
    # The watcher stayed attached to one stream and saw both.
    assert [first.worker_id, second.worker_id] == workers(transcript)
    assert ["UNKNOWN", "SUCCEEDED"] == ended(transcript)
    assert job.result.text == transcript.text
    # Accepted once, paid once; what the first attempt may have cost stays on record, at its worst case.
    assert 1 == kinds(transcript).count("result_accepted")
    assert 1 == await count(database, "job_results")
    assert CostBasis.COST_BASIS_UNKNOWN == first.provider_cost.basis
    assert amount_of(first.provider_cost.unknown_worst_case_amount) > 0
    assert amount_of(second.provider_cost.amount) > 0
    has = await funds(database)
    assert Decimal(0) == has["reserved"]
    assert amount_of(job.charge.captured_amount) == has["captured"] > 0
    assert has["funded"] == has["available"] + has["reserved"] + has["captured"]


@pytest.mark.scenario("S3")
async def test_a_job_outlives_the_server_that_created_it(database: TestDatabase, tmp_path: Path) -> None:
    async with stack_on(database, tmp_path) as stack:
        async with calling(stack.jobs) as caller:
            created = await caller.create(spec_of("simulated-fast"), key="before the kill")
        await stack.children[JOBS].kill()
        other = await stack.start_jobs("jobs-2", budget=Budget.for_work(START_LIMIT))
        async with calling(other.address) as caller:
            transcript = await caller.watch(created.job.job_id)
            job = await caller.get(created.job.job_id)
            replayed = await caller.create(spec_of("simulated-fast"), key="before the kill")
    assert JobState.JOB_STATE_SUCCEEDED == job.state
    assert job.result.text == transcript.text
    assert (True, created.job.job_id) == (replayed.replayed, replayed.job.job_id)
