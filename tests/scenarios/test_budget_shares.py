"""What each dependency may take of a request's budget, and what is left out when there is too little."""

import asyncio
import time
from typing import Any

import pytest
from grpc import StatusCode

from budget.core import Budget
from budget.policy import Policy
from budget.spend import spend
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from servicekit.call import Arrival, Principal
from servicekit.wire_time import seconds_of
from tests.jobs import MODEL, TENANT, Jobs, of
from tests.postgres import TestDatabase
from tests.scenarios.stage import Stage, Told, staged, told
from tests.waiting import eventually
from tests.worker_double import worker_double

LOOK = "worker/GetWorkerStatus"
PRICE = "pricing/GetPrice"
QUOTE_PRICE = "pricing/GetPrice.Quote"
TRIES = 40
"""So often a hurried call is made until its answer reaches us before our own timer ends it."""


def quote(jobs: Jobs, *, models: list[str], timeout: float) -> Any:
    request = pb.QuoteRequest(models=models, input_token_bound=10)
    return jobs.jobs.Quote(request, timeout=timeout, metadata=of(TENANT))


async def hurried(jobs: Jobs, *, timeout: float) -> Told:
    """The first of some quotes whose answer tells of spends: others were over before they arrived, or before
    their handler began."""
    for _ in range(TRIES):
        answer = await told(quote(jobs, models=[MODEL], timeout=timeout))
        if answer.spends:
            return answer
    raise AssertionError(f"none of {TRIES} was answered by us within {timeout} s")


@pytest.mark.scenario("B4")
async def test_a_hung_pricing_costs_its_share_and_not_one_statement_more(database: TestDatabase) -> None:
    """With one connection there is one session to watch: from the moment that pricing hangs to the answer
    it begins nothing but the readiness check. (What came before is the look at the key, and its COMMIT.)"""
    begun: set[tuple[Any, str]] = set()

    async def watch(stage: Stage) -> None:
        while True:
            for session in await stage.sessions():
                begun.add((session["query_start"], session["query"]))
            await asyncio.sleep(0.005)

    async with staged(database, pool_size=1) as stage:
        stage.pricing.hung.add("*")
        started = time.monotonic()
        call = asyncio.create_task(told(stage.create("k1")))
        await eventually(lambda: stage.pricing.calls == 1)
        watching = asyncio.create_task(watch(stage))
        answer = await call
        took = time.monotonic() - started
        await stage.sessions()
        watching.cancel()

        assert answer.failure is not None
        assert (StatusCode.DEADLINE_EXCEEDED, "UPSTREAM_TIMEOUT") == answer.failure.kind
        assert 0.48 <= took < 1.5, "pricing's share is 0.5 s of 2"
        assert [("postgres/find_idempotency_key", "ok"), (PRICE, "timeout")] == answer.spends
        assert {"COMMIT"} >= {query for _, query in begun if "check_connection" not in query}
        assert 1 >= sum(query == "COMMIT" for _, query in begun), "the one of the key's look-up"
        assert 0 == await stage.jobs.count("job_facts")


@pytest.mark.scenario("B5")
async def test_with_80_ms_left_the_optional_look_at_the_workers_is_skipped_and_labelled(
    database: TestDatabase,
) -> None:
    async with worker_double() as (worker, address), staged(database, workers_target=address) as stage:
        patient = (await told(quote(stage.jobs, models=[MODEL], timeout=4.0))).answer
        assert (pb.QUOTE_LINE_STATUS_OK, 1) == (patient.worker_load.status, worker.looks)

        answer = await hurried(stage.jobs, timeout=0.08)

        assert (LOOK, "skipped_low") in answer.spends
        assert 1 == worker.looks, "nothing left the process"
        if answer.answer is not None:
            load = answer.answer.worker_load
            assert (pb.QUOTE_LINE_STATUS_SKIPPED, "BUDGET_TOO_LOW") == (load.status, load.reason)


@pytest.mark.scenario("B5")
async def test_with_20_ms_left_there_is_no_fan_out_and_the_ledger_says_why(database: TestDatabase) -> None:
    """Of 30 ms half is reserve, so less than 20 are left for the fan-out, whatever the way here took."""
    async with worker_double() as (worker, address), staged(database, workers_target=address) as stage:
        answer = await hurried(stage.jobs, timeout=0.03)

        assert answer.failure is not None
        assert (StatusCode.DEADLINE_EXCEEDED, "BUDGET_TOO_LOW") == answer.failure.kind
        assert {(QUOTE_PRICE, "refused_low"), (LOOK, "skipped_low")} == set(answer.spends)
        assert all(spend.remaining < 0.02 and spend.took == 0 for spend in answer.ledger.spends)
        assert (0, 0) == (stage.pricing.calls, worker.looks)
        assert 0 == await stage.jobs.count("quotes")


@pytest.mark.scenario("B6")
async def test_a_try_that_fails_late_is_not_repeated_and_one_that_fails_early_is_once(
    database: TestDatabase,
) -> None:
    """A price needs 0.6 s here. Of a budget of 1.5 s 60 % are too many to begin again, 10 % are not."""
    policies = '{"postgres": {"limit": 5}, "pricing": {"limit": 2, "floor": 0.6}}'
    async with staged(database, policies=policies) as stage:
        stage.pricing.failing_after = [0.9]
        late = await told(stage.create("k1", timeout=1.5))
        assert late.failure is not None
        assert (StatusCode.UNAVAILABLE, "PRICING_UNAVAILABLE") == late.failure.kind
        assert [(PRICE, "error"), (PRICE, "retry_skipped")] == late.spends[1:]
        assert 1 == stage.pricing.calls

        stage.pricing.failing_after = [0.15]
        early = await told(stage.create("k2", timeout=1.5))
        assert early.failure is None
        assert [(PRICE, "error"), (PRICE, "ok"), ("postgres/create_job", "ok")] == early.spends[1:]
        assert [1, 2] == [one.attempt for one in early.ledger.spends[1:3]]
        assert 3 == stage.pricing.calls


@pytest.mark.scenario("B8")
async def test_a_quote_for_ten_models_with_one_slow_has_nine_prices_and_a_label(stage: Stage) -> None:
    models = [f"simulated-fast:tokens={number}" for number in range(1, 11)]
    stage.pricing.hung.add(models[4])
    started = time.monotonic()
    answer = (await told(quote(stage.jobs, models=models, timeout=2.0))).answer
    assert time.monotonic() - started < 2.0
    assert models == [line.model for line in answer.lines]
    statuses = {line.model: (line.status, line.reason) for line in answer.lines}
    assert (pb.QUOTE_LINE_STATUS_UNAVAILABLE, "UPSTREAM_TIMEOUT") == statuses.pop(models[4])
    assert {(pb.QUOTE_LINE_STATUS_OK, "")} == set(statuses.values())
    await eventually(lambda: stage.pricing.cancelled == 1, within=0.2)


@pytest.mark.scenario("B12")
async def test_authentication_spends_from_the_budget_and_the_rest_gets_what_is_left(
    database: TestDatabase,
) -> None:
    policy = Policy(dependency="identity", method="Introspect", limit=1.0)

    async def slow(_arrival: Arrival, budget: Budget) -> Principal:
        async with spend(budget, policy):
            await asyncio.sleep(0.15)
        return Principal(tenant=TENANT, user="ann")

    async with staged(database, authenticate=slow) as stage:
        answer = await told(stage.create("k1", timeout=2.0))
        assert answer.failure is None
        identity, key, *_ = answer.ledger.spends
        assert ("identity", "Introspect") == (identity.dependency, identity.method)
        assert 0.14 <= identity.took < 1.0
        assert key.remaining <= identity.remaining - identity.took + 0.001

        hurried_answer = await told(stage.create("k2", timeout=0.17))
        assert hurried_answer.failure is not None
        assert 1 == await stage.jobs.count("job_facts"), "nothing is left for the rest"


@pytest.mark.scenario("B7")
async def test_the_default_holds_without_a_deadline_and_the_cap_with_a_far_one(stage: Stage) -> None:
    default = await told(stage.create("k1", timeout=None))
    year = await told(stage.create("k2", timeout=365 * 86_400.0))
    shorter = await told(stage.create("k3", timeout=1.5))
    initial = [seconds_of(one.binary.initial_duration) for one in (default, year, shorter)]
    assert [2.0, 10.0] == initial[:2]
    assert 1.0 < initial[2] <= 1.5 * 1.011, "C-core adds up to 1 % on the way"


@pytest.mark.scenario("B7")
@pytest.mark.parametrize("deadline", [0.0, -1.0, 0.001])
async def test_a_deadline_that_is_over_is_refused_at_once_and_nothing_is_done(
    stage: Stage, deadline: float
) -> None:
    started = time.monotonic()
    answer = await told(stage.create("k1", timeout=deadline))
    assert time.monotonic() - started < 1.0
    assert answer.failure is not None
    assert StatusCode.DEADLINE_EXCEEDED is answer.failure.code
    assert [] == answer.spends
    assert 0 == stage.pricing.calls
    assert (0, 0) == (await stage.jobs.count("idempotency_keys"), await stage.jobs.count("job_facts"))
