"""Generate, end to end: the answer, the money to the last unit, and every refusal before the send."""

from decimal import Decimal

import pytest
from grpc import StatusCode

from hourglass.jobs.v1 import job_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from jobs_store.rate_card import Usage
from servicekit.wire_money import amount_of, money_of
from tests.integration.generate.callers import FUNDS, NOTHING, TENANT, Callers, first, open_callers
from tests.jobs import failure_of, message, of
from tests.postgres import TestDatabase

FAST = "simulated-fast:tokens=20"


async def test_an_answer_is_streamed_and_paid_to_the_last_unit(callers: Callers) -> None:
    heard = await callers.generate(FAST)
    assert heard.failure is None
    assert ["started", *["token_delta"] * 20, "finished"] == [m.WhichOneof("message") for m in heard.messages]
    offsets = [m.token_delta.offset for m in heard.messages[1:-1]]
    assert offsets == [
        sum(len(m.token_delta.text) for m in heard.messages[1:at]) for at in range(1, len(heard.messages) - 1)
    ]
    finished = heard.finished
    assert job_pb2.FINISH_REASON_STOP == finished.finish_reason
    assert 20 == finished.usage.output_token_count
    usage = Usage(input_tokens=finished.usage.input_token_count, output_tokens=20)
    charge = (await callers.rate_card(FAST)).amount(usage)
    assert charge > 0
    assert charge == amount_of(finished.captured_amount)
    assert (FUNDS - charge, NOTHING, charge) == await callers.funds()
    row = await callers.row(heard.call_id)
    assert ("SUCCEEDED", "COMPLETED", "REPORTED") == (row["outcome"], row["cause"], row["cost_basis"])
    assert amount_of(heard.messages[0].started.reserved_amount) == row["amount"] > charge
    assert (charge, row["amount"] - charge) == (row["captured"], row["released"])
    assert NOTHING < row["cost"] < charge
    assert row["provider_request_id"].startswith("req-")


@pytest.mark.scenario("U2")
async def test_one_generate_is_one_wire_call(callers: Callers) -> None:
    model = "simulated-500:tokens=3"
    heard = await callers.generate(model)
    assert (StatusCode.UNAVAILABLE, "PROVIDER_UNAVAILABLE") == heard.kind
    assert [heard.call_id] == [seen["key"] for seen in await callers.all_seen(model)]


async def test_the_ledger_shows_every_hop(callers: Callers) -> None:
    stream = callers.call(FAST)
    async for _ in stream:
        pass
    ledger = dict(await stream.trailing_metadata())["budget-ledger"]
    hops = [part.split()[0] for part in str(ledger).split("; ")]
    assert ["pricing/GetPrice", "postgres/reserve_call", "worker/Generate", "postgres/settle_calls"] == [
        hop for hop in hops if hop != "worker/connect"
    ]


async def test_a_provider_without_usage_is_charged_by_what_was_delivered(callers: Callers) -> None:
    model = "simulated-no-usage:tokens=7,tps=0"
    heard = await callers.generate(model)
    assert 7 == heard.finished.usage.output_token_count
    assert await callers.charge_of(model, 7) == amount_of(heard.finished.captured_amount)
    assert "ESTIMATED" == (await callers.row(heard.call_id))["cost_basis"]


@pytest.mark.scenario("M11")
async def test_without_funds_nothing_is_sent(callers: Callers) -> None:
    await callers.jobs.fund("poor", NOTHING)
    model = "simulated-fast:tokens=21"
    heard = await callers.generate(model, tenant="poor")
    assert (StatusCode.RESOURCE_EXHAUSTED, "INSUFFICIENT_FUNDS") == heard.kind
    assert [] == heard.messages
    assert [] == await callers.all_seen(model)
    assert 0 == await callers.jobs.count("calls")


async def test_an_unknown_tenant_sends_nothing(callers: Callers) -> None:
    heard = await callers.generate(FAST, tenant="nobody")
    assert (StatusCode.NOT_FOUND, "TENANT_NOT_FOUND") == heard.kind


async def test_a_worst_case_above_max_charge_is_refused(callers: Callers) -> None:
    heard = await callers.generate(FAST, max_charge=money_of(Decimal("1e-9")))
    assert (StatusCode.FAILED_PRECONDITION, "MAX_CHARGE_TOO_LOW") == heard.kind
    assert 0 == await callers.jobs.count("calls")


async def test_an_unknown_model_is_not_found(callers: Callers) -> None:
    assert (StatusCode.NOT_FOUND, "UNKNOWN_MODEL") == (await callers.generate("simulated-fasd")).kind


async def test_everything_that_is_wrong_is_told_at_once(callers: Callers) -> None:
    bad = pb.GenerateRequest(
        messages=[message(), job_pb2.Message(content="a\0b")],
        max_output_token_count=0,
        sampling=job_pb2.SamplingOptions(temperature=3, top_p=0),
        max_charge=money_of(Decimal(-1)),
    )
    stream = callers.jobs.jobs.Generate(bad, metadata=of(TENANT), timeout=10)
    with pytest.raises(Exception) as refused:  # noqa: PT011 - looked at below
        await stream.read()
    failure = failure_of(refused.value)  # type: ignore[arg-type] # AioRpcError, or this fails
    assert (StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT") == failure.kind
    assert {
        "model",
        "messages[1].role",
        "messages[1].content",
        "max_output_token_count",
        "sampling.temperature",
        "sampling.top_p",
        "max_charge",
    } == set(failure.violations)


async def test_what_cannot_fit_into_the_deadline_is_a_job(database: TestDatabase, simulated: str) -> None:
    async with open_callers(
        database, simulated, generate_first_token=0.5, generate_lanes={"simulated/simulated-slow": 10.0}
    ) as callers:
        slow = "simulated-slow:tokens=2"
        heard = await callers.generate(slow, timeout=5.0)
        assert (StatusCode.FAILED_PRECONDITION, "USE_A_JOB") == heard.kind
        assert heard.failure is not None
        assert "6900" == heard.failure.metadata["estimate_ms"]
        assert int(heard.failure.metadata["budget_ms"]) < 5000
        assert [] == await callers.all_seen(slow)
        assert 0 == await callers.jobs.count("calls")
        fits = await callers.generate(slow, timeout=5.0, max_output_token_count=20)
        assert 2 == fits.tokens


async def test_a_paused_lane_takes_no_call(callers: Callers) -> None:
    await callers.jobs.sql(
        "INSERT INTO hourglass.lanes (lane, paused_time) VALUES ('simulated/simulated-fast', now()) "
        "ON CONFLICT (lane) DO UPDATE SET paused_time = now()"
    )
    heard = await callers.generate(FAST)
    assert (StatusCode.UNAVAILABLE, "LANE_PAUSED") == heard.kind
    assert 0 == await callers.jobs.count("calls")


async def test_without_a_worker_no_money_is_set_aside(database: TestDatabase, simulated: str) -> None:
    async with open_callers(database, simulated, workers_target="127.0.0.1:1") as callers:
        heard = await callers.generate(FAST)
        assert (StatusCode.UNAVAILABLE, "WORKER_UNAVAILABLE") == heard.kind
        assert 0 == await callers.jobs.count("calls")


async def test_a_worker_without_a_free_slot_refuses_and_nothing_is_charged(
    database: TestDatabase, simulated: str
) -> None:
    async with open_callers(database, simulated, worker={"generate_slots": 1}) as callers:
        holding = callers.call("simulated-drip:tokens=50")
        held = await first(holding, tokens=1)
        heard = await callers.generate(FAST)
        assert (StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED") == heard.kind
        row = await callers.settled(heard.call_id)
        assert ("NOT_SENT", "OVERLOADED", NOTHING) == (row["outcome"], row["cause"], row["captured"])
        assert (None, NOTHING) == (row["cost_basis"], row["worst_case"])
        holding.cancel()
        await callers.settled(held.call_id)
        assert (await callers.generate(FAST)).failure is None


async def test_a_model_that_no_worker_has_a_provider_for_is_not_charged(
    database: TestDatabase, simulated: str
) -> None:
    async with open_callers(
        database, simulated, worker={"route": {"models": ("simulated-slow*",)}}
    ) as callers:
        heard = await callers.generate(FAST)
        assert (StatusCode.NOT_FOUND, "UNKNOWN_MODEL") == heard.kind
        row = await callers.settled(heard.call_id)
        assert ("NOT_SENT", NOTHING) == (row["outcome"], row["captured"])
