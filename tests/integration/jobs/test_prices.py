"""Creates whose price cannot be had: within the budget, typed, and with nothing inserted."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from grpc import StatusCode

from budget.ledger import Outcome, parse_text
from hourglass.jobs.v1 import job_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from tests.jobs import MODEL, TENANT, Failure, Jobs, failure, jobs_server, message, of, spec
from tests.postgres import TestDatabase
from tests.pricing_double import PricingDouble, pricing_double
from tests.waiting import eventually

FUNDS = Decimal(10)
SHORT = '{"postgres": {"limit": 20}, "pricing.GetPrice": {"limit": 0.3}}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    jobs: Jobs
    pricing: PricingDouble


@asynccontextmanager
async def running(database: TestDatabase, **settings: Any) -> AsyncIterator[Setting]:
    async with (
        pricing_double() as (servicer, address),
        jobs_server(database, pricing=address, **{"policies": SHORT, **settings}) as jobs,
    ):
        await jobs.fund(TENANT, FUNDS)
        yield Setting(jobs=jobs, pricing=servicer)


@pytest.fixture
async def setting(database: TestDatabase) -> AsyncIterator[Setting]:
    async with running(database) as made:
        yield made


async def nothing_inserted(jobs: Jobs) -> bool:
    tables = ("jobs", "job_facts", "idempotency_keys", "reservations", "quotes")
    return [await jobs.count(table) for table in tables] == [0] * len(tables)


def spends(refused: Failure) -> dict[str, Outcome]:
    ledger = parse_text(str(refused.trailers["budget-ledger"]))
    return {f"{spend.dependency}/{spend.method}": spend.outcome for spend in ledger.spends}


async def test_pricing_that_is_down_is_told_in_the_budget(setting: Setting) -> None:
    setting.pricing.down = True
    started = time.monotonic()
    refused = await failure(setting.jobs.create("k1", timeout=2))
    assert time.monotonic() - started < 2
    assert refused.kind == (StatusCode.UNAVAILABLE, "PRICING_UNAVAILABLE")
    assert setting.pricing.calls == 2, "a transient error is tried once more"
    assert await nothing_inserted(setting.jobs)


async def test_pricing_that_nobody_listens_for_is_down_too(database: TestDatabase) -> None:
    async with jobs_server(database, pricing="127.0.0.1:1") as jobs:
        await jobs.fund(TENANT, FUNDS)
        refused = await failure(jobs.create("k1", timeout=2))
        assert refused.kind == (StatusCode.UNAVAILABLE, "PRICING_UNAVAILABLE")
        assert await nothing_inserted(jobs)


@pytest.mark.scenario("B4")
async def test_a_hung_pricing_costs_its_own_share_and_no_sql(setting: Setting) -> None:
    setting.pricing.hung.add("*")
    started = time.monotonic()
    refused = await failure(setting.jobs.create("k1", timeout=5))
    took = time.monotonic() - started
    assert refused.kind == (StatusCode.DEADLINE_EXCEEDED, "UPSTREAM_TIMEOUT")
    assert 0.28 <= took < 2
    assert spends(refused) == {
        "postgres/find_idempotency_key": Outcome.OK,
        "pricing/GetPrice": Outcome.TIMEOUT,
    }
    assert await nothing_inserted(setting.jobs)


@pytest.mark.scenario("B11")
async def test_a_known_key_needs_no_price(setting: Setting) -> None:
    first = await setting.jobs.create("k1")
    setting.pricing.down = True
    assert (await setting.jobs.create("k1")).job.job_id == first.job.job_id


@pytest.mark.parametrize("outage", ["down", "hung"])
async def test_the_last_known_price_is_used_and_labelled_where_that_is_allowed(
    database: TestDatabase, outage: str
) -> None:
    async with running(database, last_known_price=True) as setting:
        live = await setting.jobs.create("k1")
        setting.pricing.down, setting.pricing.hung = outage == "down", {"*"} if outage == "hung" else set()
        fallback = await setting.jobs.create("k2")
        assert fallback.job.charge.price_basis == job_pb2.PRICE_BASIS_LAST_KNOWN
        assert fallback.job.charge.rate_card == live.job.charge.rate_card
        unseen = await failure(setting.jobs.create("k3", model="simulated-slow"))
        assert unseen.reason == ("PRICING_UNAVAILABLE" if outage == "down" else "UPSTREAM_TIMEOUT")


async def test_the_last_known_price_is_not_used_unless_that_is_allowed(setting: Setting) -> None:
    await setting.jobs.create("k1")
    setting.pricing.down = True
    assert (await failure(setting.jobs.create("k2"))).reason == "PRICING_UNAVAILABLE"


async def test_a_request_that_is_a_retry_is_not_retried_again(setting: Setting) -> None:
    setting.pricing.down = True
    request = pb.CreateJobRequest(idempotency_key="k1", spec=spec())
    refused = await failure(
        setting.jobs.jobs.CreateJob(request, metadata=(*of(TENANT), ("hourglass-retry-attempt", "1")))
    )
    assert refused.reason == "PRICING_UNAVAILABLE"
    assert setting.pricing.calls == 1


@pytest.mark.scenario("B5")
async def test_too_little_time_is_refused_without_touching_anything(setting: Setting) -> None:
    refused = await failure(setting.jobs.create("k1", timeout=0.016))
    assert refused.code is StatusCode.DEADLINE_EXCEEDED
    assert setting.pricing.calls == 0
    assert await nothing_inserted(setting.jobs)


async def test_without_a_deadline_the_default_of_the_method_holds(setting: Setting) -> None:
    setting.pricing.hung.add("*")
    request = pb.CreateJobRequest(idempotency_key="k1", spec=spec())
    started = time.monotonic()
    refused = await failure(setting.jobs.jobs.CreateJob(request, metadata=of(TENANT)))
    assert time.monotonic() - started < 2
    assert refused.reason == "UPSTREAM_TIMEOUT"


@pytest.mark.scenario("B8")
async def test_a_quote_answers_with_what_came_in_time_and_cancels_the_rest(setting: Setting) -> None:
    setting.pricing.hung.add("simulated-slow")
    request = pb.QuoteRequest(models=[MODEL, "simulated-slow", "no-such-model"], messages=[message()])
    quote = await setting.jobs.jobs.Quote(request, metadata=of(TENANT))
    assert [(line.model, line.status, line.reason) for line in quote.lines] == [
        (MODEL, pb.QUOTE_LINE_STATUS_OK, ""),
        ("simulated-slow", pb.QUOTE_LINE_STATUS_UNAVAILABLE, "UPSTREAM_TIMEOUT"),
        ("no-such-model", pb.QUOTE_LINE_STATUS_UNAVAILABLE, "UNKNOWN_MODEL"),
    ]
    assert quote.worker_load.status == pb.QUOTE_LINE_STATUS_SKIPPED
    await eventually(lambda: setting.pricing.cancelled == 1)


async def test_a_quote_without_any_price_fails_with_the_first_error(setting: Setting) -> None:
    setting.pricing.down = True
    request = pb.QuoteRequest(models=[MODEL, "simulated-slow"], messages=[message()])
    refused = await failure(setting.jobs.jobs.Quote(request, metadata=of(TENANT)))
    assert refused.kind == (StatusCode.UNAVAILABLE, "PRICING_UNAVAILABLE")
    assert await nothing_inserted(setting.jobs)


async def test_prices_are_asked_of_every_pricing_service_of_the_target(database: TestDatabase) -> None:
    async with pricing_double() as (one, here), pricing_double() as (other, there):
        target = f"ipv4:{here},{there}"
        async with jobs_server(database, pricing=target, policies=SHORT) as jobs:
            await jobs.fund(TENANT, FUNDS)
            for number in range(10):
                await jobs.create(f"k{number}")
    assert 10 == one.calls + other.calls
    assert min(one.calls, other.calls) >= 3
