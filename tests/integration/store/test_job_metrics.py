"""What the job model is judged by is counted once, when it has become true, and for nobody by name."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from jobs_store.cancellation import JobCancellation
from jobs_store.creation import JobCreation, KeyTaken
from jobs_store.decisions import RetryTiming
from jobs_store.errors import InsufficientFunds
from jobs_store.job_metrics import JobMetrics
from jobs_store.operator_decisions import OperatorDecisions, Resolution
from jobs_store.reaper import Reaper
from tests.integration.servicekit.metrics import counted, points
from tests.store import (
    CHARGE,
    OVER,
    RESERVED,
    WORST_CASE,
    Store,
    acceptance_of,
    decision_about,
    new_job,
    policy_of,
    time_enough,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A store whose parts count into one reader."""

    store: Store
    metrics: JobMetrics
    reader: InMemoryMetricReader

    def of(self, name: str, **labels: str) -> float:
        """The sum of a counter over the points with these labels."""
        return counted(self.reader, f"hourglass.{name}", **labels)


@pytest.fixture
async def at(store: Store) -> Counted:
    """A funded tenant in a store that counts."""
    reader = InMemoryMetricReader()
    metrics = JobMetrics(MeterProvider([reader], shutdown_on_exit=False).get_meter("test"))
    counting: dict[str, Any] = {
        "creation": JobCreation(store.request, policy_of, metrics=metrics),
        "cancellation": JobCancellation(store.request, policy_of, metrics=metrics),
        "decisions": OperatorDecisions(store.request, policy_of, metrics=metrics),
        "reaper": Reaper(
            store.worker,
            policy_of,
            timing=RetryTiming(backoff_base=0.0),
            jitter=lambda most: most,
            page_size=100,
            metrics=metrics,
        ),
    }
    await store.tenant()
    return Counted(store=replace(store, **counting), metrics=metrics, reader=reader)


async def test_a_job_is_created_once_a_key_and_never_when_it_was_refused(at: Counted) -> None:
    job = new_job(key="once")
    await at.store.creation.create(job, budget=time_enough())
    with pytest.raises(KeyTaken):
        await at.store.creation.create(new_job(key="once"), budget=time_enough())
    poor = await at.store.tenant("poor", funds=RESERVED / 2)  # type: ignore[arg-type]  # a name is text
    with pytest.raises(InsufficientFunds):
        await at.store.creation.create(new_job(poor), budget=time_enough())
    assert 1 == at.of("jobs.created")
    assert float(RESERVED) == at.of("money.reserved", work="job")


async def test_an_acceptance_is_counted_with_its_attempt_its_cost_and_its_money(at: Counted) -> None:
    run = await at.store.running()
    acceptance = acceptance_of(run)
    for _ in range(2):  # the second one finds nothing, and counts nothing
        ended = await at.store.runs.finish([acceptance], budget=time_enough())
        at.metrics.written(zip([acceptance], ended, strict=True))
    assert 1 == at.of("jobs.accepted", retry="false") == at.of("jobs.ended", state="SUCCEEDED")
    assert 1 == at.of("provider.attempts", outcome="SUCCEEDED", retry="false")
    assert float(CHARGE) == at.of("money.captured") == at.of("provider.cost", basis="REPORTED")
    assert pytest.approx(float(RESERVED - CHARGE)) == at.of("money.released")
    assert (100, 50) == (at.of("provider.tokens", kind="input"), at.of("provider.tokens", kind="output"))


async def test_a_lost_run_counts_as_expired_and_unknown_and_what_follows_as_a_retry(at: Counted) -> None:
    await at.store.running(lease=OVER)
    await at.store.reaper.reap(budget=time_enough())
    await at.store.reaper.reap(budget=time_enough())
    assert 1 == at.of("jobs.lease_expired", outcome="UNKNOWN")
    assert 1 == at.of("provider.unknown_outcomes", cause="LEASE_EXPIRED")
    assert float(WORST_CASE) == at.of("provider.cost", basis="UNKNOWN")
    second = await at.store.claim_one()
    await at.store.start(second)
    acceptance = acceptance_of(second)
    (ended,) = await at.store.runs.finish([acceptance], budget=time_enough())
    at.metrics.written([(acceptance, ended)])
    assert 1 == at.of("jobs.accepted", retry="true") == at.of("provider.attempts", retry="true")


async def test_the_late_answer_of_a_first_attempt_is_no_retry(at: Counted) -> None:
    held = await at.store.held()
    acceptance = acceptance_of(held)
    (ended,) = await at.store.runs.finish([acceptance], budget=time_enough())
    at.metrics.written([(acceptance, ended)])
    assert 1 == at.of("jobs.accepted", retry="false")


async def test_cancels_and_decisions_count_the_ends_that_they_make(at: Counted) -> None:
    queued = await at.store.create()
    for _ in range(2):
        await at.store.cancellation.cancel(
            new_job().tenant, queued, principal="ada", reason="", budget=time_enough()
        )
    held = await at.store.held()
    fail = decision_about(held.job_id)
    for _ in range(2):
        await at.store.decisions.resolve(fail, Resolution.FAIL, budget=time_enough())
    assert 1 == at.of("jobs.ended", state="CANCELLED", cause="USER_CANCEL")
    assert 1 == at.of("jobs.ended", state="FAILED", cause="RESOLVED_FAIL")
    reserved = at.of("money.reserved")
    await at.store.decisions.retry(decision_about(held.job_id), budget=time_enough())
    assert pytest.approx(reserved + float(RESERVED)) == at.of("money.reserved")


async def test_series_are_as_many_as_lanes_however_many_tenants_and_jobs(at: Counted) -> None:
    for tenant in ("one", "two", "three"):
        await at.store.tenant(tenant)  # type: ignore[arg-type]  # a name is text
        await at.store.create(tenant, key=tenant)  # type: ignore[arg-type]
    assert 3 == at.of("jobs.created")
    (point,) = points(at.reader, "hourglass.jobs.created")
    assert {"provider", "model"} == set(point.attributes)
