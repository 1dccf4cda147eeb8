"""Quotes: a price that one create may use."""

from decimal import Decimal
from typing import Any

import pytest
from grpc import StatusCode

from hourglass.jobs.v1 import job_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from servicekit.wire_money import amount_of
from tests.jobs import MODEL, TENANT, Jobs, failure, message, of

pytestmark = pytest.mark.every_postgres


async def quoted(jobs: Jobs, **fields: Any) -> pb.QuoteResponse:
    request = pb.QuoteRequest(**{"models": [MODEL], "messages": [message()], **fields})
    answer: pb.QuoteResponse = await jobs.jobs.Quote(request, metadata=of(TENANT), timeout=10)
    return answer


async def test_a_job_is_charged_by_the_quote_that_it_names(jobs: Jobs) -> None:
    quote = await quoted(jobs)
    line = quote.lines[0]
    assert line.status == pb.QUOTE_LINE_STATUS_OK
    assert line.affordable
    assert amount_of(quote.available_funds) == Decimal(10)
    job = (await jobs.create("k1", quote_id=quote.quote_id)).job
    assert job.charge.price_basis == job_pb2.PRICE_BASIS_QUOTE
    assert job.charge.quoted_amount == line.amount
    assert job.charge.rate_card == line.rate_card


async def test_a_quote_is_used_once(jobs: Jobs) -> None:
    quote = await quoted(jobs)
    await jobs.create("k1", quote_id=quote.quote_id)
    refused = await failure(jobs.create("k2", quote_id=quote.quote_id))
    assert refused.kind == (StatusCode.FAILED_PRECONDITION, "QUOTE_USED")
    assert await jobs.count("idempotency_keys") == 1


async def test_a_replay_may_name_a_quote_that_was_used(jobs: Jobs) -> None:
    quote = await quoted(jobs)
    first = await jobs.create("k1", quote_id=quote.quote_id)
    assert (await jobs.create("k1", quote_id=quote.quote_id)).job.job_id == first.job.job_id


async def test_a_quote_ends(jobs: Jobs) -> None:
    quote = await quoted(jobs)
    await jobs.sql("UPDATE hourglass.quotes SET expire_time = clock_timestamp()")
    refused = await failure(jobs.create("k1", quote_id=quote.quote_id))
    assert refused.kind == (StatusCode.FAILED_PRECONDITION, "QUOTE_EXPIRED")


@pytest.mark.parametrize(
    "fields", [{"model": "simulated-slow"}, {"text": "Say hello. " * 9}, {"max_output_token_count": 1025}]
)
async def test_a_quote_for_less_is_refused(jobs: Jobs, fields: dict[str, Any]) -> None:
    quote = await quoted(jobs)
    refused = await failure(jobs.create("k1", quote_id=quote.quote_id, **fields))
    assert refused.kind == (StatusCode.FAILED_PRECONDITION, "QUOTE_MISMATCH")
    assert await jobs.count("idempotency_keys") == 0


async def test_a_job_that_asks_for_less_than_was_quoted_reserves_less(jobs: Jobs) -> None:
    quote = await quoted(jobs, max_output_token_count=2000)
    job = (await jobs.create("k1", quote_id=quote.quote_id, max_output_token_count=1000)).job
    assert amount_of(job.charge.quoted_amount) < amount_of(quote.lines[0].amount)


async def test_another_tenants_quote_is_not_found(jobs: Jobs) -> None:
    await jobs.fund("other", Decimal(1))
    quote = await quoted(jobs)
    refused = await failure(jobs.create("k1", tenant="other", quote_id=quote.quote_id))
    assert refused.kind == (StatusCode.NOT_FOUND, "QUOTE_NOT_FOUND")


async def test_a_quote_leaves_an_audit_row(jobs: Jobs) -> None:
    quote = await quoted(jobs)
    rows = await jobs.sql("SELECT actor, subject FROM hourglass.audit_log WHERE action = 'QUOTE'")
    assert [tuple(row) for row in rows] == [("ann", f"quote:{quote.quote_id}")]


async def test_a_quote_takes_a_bound_instead_of_messages(jobs: Jobs) -> None:
    quote = await quoted(jobs, messages=[], input_token_bound=5000)
    assert quote.input_token_bound == 5000


async def test_everything_that_is_wrong_with_a_quote_is_told_at_once(jobs: Jobs) -> None:
    request = pb.QuoteRequest(
        models=[MODEL, MODEL, ""], messages=[message()], input_token_bound=-1, max_output_token_count=0
    )
    refused = await failure(jobs.jobs.Quote(request, metadata=of(TENANT)))
    assert set(refused.violations) == {
        "models[1]",
        "models[2]",
        "input_token_bound",
        "max_output_token_count",
    }
    refused = await failure(jobs.jobs.Quote(pb.QuoteRequest(models=map(str, range(17))), metadata=of(TENANT)))
    assert set(refused.violations) == {"models", "messages"}


async def test_sixteen_models_are_priced_side_by_side(jobs: Jobs) -> None:
    models = [f"simulated-fast:tokens={number}" for number in range(1, 17)]
    quote = await quoted(jobs, models=models)
    assert [line.model for line in quote.lines] == models
    assert {line.status for line in quote.lines} == {pb.QUOTE_LINE_STATUS_OK}
