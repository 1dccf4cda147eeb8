"""Each way in which a call can fail, and what becomes of its job."""

from __future__ import annotations

import socket
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from jobs_store.states import AttemptOutcome, CostBasis, ErrorClass, JobState, UnknownOutcomePolicy
from tests.integration.worker.workers import attempts, outcomes
from tests.store import WORST_CASE
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobs_store.identifiers import JobId
    from jobs_store.reading import JobDetail
    from tests.integration.worker.workers import Bench


async def _after_attempts(bench: Bench, job: JobId, count: int) -> JobDetail:
    async def enough() -> JobDetail | None:
        detail = await bench.get(job)
        return detail if len(detail.attempts) >= count else None

    found = await eventually(enough, within=15.0)
    assert found is not None
    return found


async def test_a_refused_request_fails_the_job_at_once(bench: Bench) -> None:
    """Permanent: no second attempt, nothing charged."""
    job = await bench.job("simulated-400")
    async with bench.worker():
        detail = await bench.ends(job)
    assert (JobState.FAILED, "PERMANENT_ERROR") == (detail.job.state, detail.job.state_cause)
    assert ["FAILED"] == outcomes(detail)
    assert ErrorClass.PERMANENT is attempts(detail)[0].end.error_class
    assert (Decimal(0), Decimal(0)) == await bench.funds()


@pytest.mark.scenario("U2")
async def test_a_server_error_is_tried_again_until_the_attempts_are_used_up(bench: Bench) -> None:
    """Transient: one wire call is one attempt, and every one counts."""
    job = await bench.job("simulated-500", max_attempts=2)
    async with bench.worker():
        detail = await bench.ends(job)
    assert (JobState.FAILED, "MAX_ATTEMPTS") == (detail.job.state, detail.job.state_cause)
    assert ["FAILED", "FAILED"] == outcomes(detail)
    assert [1, 2] == [attempt.number for attempt in attempts(detail)]
    assert 2 == detail.job.attempt_count
    assert (Decimal(0), Decimal(0)) == await bench.funds()


@pytest.mark.scenario("U4")
async def test_refused_credentials_park_the_lane_and_fail_no_job(bench: Bench) -> None:
    """Platform: our account is at fault, so the job waits and the attempt does not count."""
    job = await bench.job("simulated-401", max_attempts=1)
    async with bench.worker():
        detail = await _after_attempts(bench, job, 1)
        parked = await bench.lane("simulated/simulated-401")
    assert (JobState.QUEUED, "LANE_PARKED") == (detail.job.state, detail.job.state_cause)
    assert 0 == detail.job.attempt_count
    assert "CREDENTIALS_REFUSED" == parked["park_cause"]
    assert 1 == len(detail.attempts)


async def test_a_rate_limit_parks_the_lane_for_as_long_as_the_provider_asks(bench: Bench) -> None:
    """The job is tried again after that, and no attempt counts."""
    job = await bench.job("simulated-429:retry_after=1", max_attempts=1)
    async with bench.worker():
        detail = await _after_attempts(bench, job, 2)
    first, second = attempts(detail)[:2]
    assert [AttemptOutcome.FAILED] * 2 == [first.end.outcome, second.end.outcome]
    assert (second.claim_time - first.end_time).total_seconds() >= 0.9
    assert 0 == detail.job.attempt_count


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of loopback that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.scenario("U1")
async def test_a_refused_connection_is_no_attempt_that_counts(bench: Bench, closed_port: int) -> None:
    """Proven not sent: FAILED, uncounted, free of cost; the job waits for its turn again."""
    job = await bench.job("simulated-fast", max_attempts=1)
    route = bench.route(base_url=f"http://127.0.0.1:{closed_port}/v1")
    async with bench.worker(routes=(route,)):
        detail = await _after_attempts(bench, job, 2)
    end = attempts(detail)[0].end
    assert (AttemptOutcome.FAILED, "CONNECT_FAILED", False) == (end.outcome, end.cause, end.counted)
    assert (None, Decimal(0)) == (end.cost.basis, end.cost.worst_case)
    assert not detail.job.state.terminal
    assert 0 == detail.job.attempt_count


@pytest.mark.scenario("U1")
async def test_a_lost_answer_is_unknown_and_retried_where_the_policy_says_so(bench: Bench) -> None:
    """RETRY: every attempt keeps what it may have cost at worst."""
    job = await bench.job("simulated-reset-mid", max_attempts=2)
    async with bench.worker():
        detail = await bench.ends(job)
    assert (JobState.FAILED, "MAX_ATTEMPTS") == (detail.job.state, detail.job.state_cause)
    assert ["UNKNOWN", "UNKNOWN"] == outcomes(detail)
    assert [(CostBasis.UNKNOWN, WORST_CASE)] * 2 == [
        (attempt.end.cost.basis, attempt.end.cost.worst_case) for attempt in attempts(detail)
    ]
    assert 2 * WORST_CASE == detail.job.cost.worst_case


@pytest.mark.scenario("U3")
async def test_a_lost_answer_is_not_retried_beyond_what_the_attempts_may_cost(bench: Bench) -> None:
    """The unknown attempt counts at its worst case."""
    limit = 2 * WORST_CASE - Decimal("0.0001")
    job = await bench.job("simulated-reset-mid", provider_cost_limit=limit)
    async with bench.worker():
        detail = await bench.ends(job)
    assert (JobState.FAILED, "PROVIDER_COST_LIMIT") == (detail.job.state, detail.job.state_cause)
    assert ["UNKNOWN"] == outcomes(detail)


@pytest.mark.scenario("U3")
async def test_a_lost_answer_is_held_where_the_policy_says_so(bench: Bench) -> None:
    """HOLD: the slot is free, the money stays reserved."""
    job = await bench.job("simulated-reset-mid", unknown_outcome_policy=UnknownOutcomePolicy.HOLD)
    async with bench.worker() as worker:
        detail = await bench.reaches(job, JobState.HELD)
        await eventually(lambda: worker.free_slots == 8)
    assert ["UNKNOWN"] == outcomes(detail)
    assert detail.job.reserved > 0


async def test_a_lost_answer_fails_the_job_where_the_policy_says_so(bench: Bench) -> None:
    """FAIL: everything is released."""
    job = await bench.job("simulated-reset-mid", unknown_outcome_policy=UnknownOutcomePolicy.FAIL)
    async with bench.worker():
        detail = await bench.ends(job)
    assert (JobState.FAILED, "UNKNOWN_OUTCOME") == (detail.job.state, detail.job.state_cause)
    assert (Decimal(0), Decimal(0)) == await bench.funds()


@pytest.mark.scenario("X3")
async def test_an_attempt_that_takes_too_long_is_closed_before_the_next_one(bench: Bench) -> None:
    """The attempt's own limit: its connection is closed, its outcome unknown."""
    job = await bench.job("simulated-drip", attempt_timeout=0.5, max_attempts=2)
    async with bench.worker():
        detail = await bench.ends(job)
    assert ["UNKNOWN", "UNKNOWN"] == outcomes(detail)
    assert {"BUDGET_EXHAUSTED"} == {attempt.end.cause for attempt in attempts(detail)}
    seen = [request for request in bench.all_seen() if request["model"] == "simulated-drip"][-2:]
    assert ["closed_by_client"] * 2 == [request["state"] for request in seen]
    assert seen[0]["ended_time"] <= seen[1]["received_time"]


async def test_usage_that_is_not_reported_is_estimated(bench: Bench) -> None:
    """From the chunks that came and the estimate of the input."""
    job = await bench.job("simulated-no-usage:tokens=12")
    async with bench.worker():
        detail = await bench.ends(job)
    end = attempts(detail)[0].end
    assert (CostBasis.ESTIMATED, 12, 90) == (
        end.cost.basis,
        end.usage.output_tokens,
        end.usage.input_tokens,
    )
    assert JobState.SUCCEEDED is detail.job.state


async def test_a_model_that_no_route_serves_parks_its_lane(bench: Bench) -> None:
    """Our configuration is at fault, not the job."""
    job = await bench.job("simulated-fast:tokens=5")
    async with bench.worker(routes=(bench.route(models=("simulated-fast",)),)):
        detail = await _after_attempts(bench, job, 1)
    assert (JobState.QUEUED, "LANE_PARKED") == (detail.job.state, detail.job.state_cause)
    assert "UNROUTED_MODEL" == attempts(detail)[0].end.cause


@pytest.mark.scenario("C7")
async def test_a_payload_that_cannot_be_read_ends_as_poisoned(bench: Bench) -> None:
    """Not in a loop, and nothing is ever sent for it."""
    job = await bench.job("simulated-fast", messages=({"role": "nobody", "content": "?"},))
    async with bench.worker():
        detail = await bench.ends(job)
    assert (JobState.FAILED, "POISONED") == (detail.job.state, detail.job.state_cause)
    assert {"NOT_SENT"} == set(outcomes(detail))
    assert 10 == len(detail.attempts)
    assert (Decimal(0), Decimal(0)) == await bench.funds()
