"""Money when its store fails, when a crowd writes at once, and when nobody can say a price."""

import asyncio
import time
from decimal import Decimal
from pathlib import Path

import asyncpg
import grpc
import pytest

from hourglass.jobs.v1 import job_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from jobs_store.rate_card import RateCard, Usage
from jobs_store.stored_json import load_object
from servicekit.wire_money import amount_of
from tests.chaos_proxy import ChaosProxy
from tests.integration.generate.callers import open_callers
from tests.jobs import failure_of, pricing_server
from tests.postgres import TestDatabase
from tests.scenarios.everyday import assert_funds_balance
from tests.scenarios.runs import running
from tests.scenarios.stage import FUNDS, Stage, told
from tests.stacks import Caller, calling, count, funds, rows, spec_of, stack_on
from tests.waiting import eventually

WRITERS = 100
WRITER_BUDGET = 10.0
RETRY_INFO = 0.1
"""Seconds, about what a refusal for want of room asks for."""
PRODUCTION = '{"pricing": {"limit": 5}}'
"""SQL has the limits that it has in production; pricing has the time that a busy machine may need."""
NO_ROOM = """
CREATE FUNCTION hourglass.no_room() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full';
END $$;
CREATE TRIGGER no_room BEFORE INSERT ON hourglass.{table} FOR EACH ROW EXECUTE FUNCTION hourglass.no_room();
"""
ROOM_AGAIN = "DROP FUNCTION hourglass.no_room() CASCADE"


async def change(database: TestDatabase, script: str) -> None:
    """Run a script as the owner of the database."""
    connection = await asyncpg.connect(database.owner)
    try:
        await connection.execute(script)
    finally:
        await connection.close()


async def assert_nothing_was_made(stage: Stage) -> None:
    """No job, no key, no reservation, and all funds available."""
    for table in ("job_facts", "jobs", "job_payloads", "idempotency_keys", "reservations", "job_events"):
        assert 0 == await stage.jobs.count(table), table
    (funds,) = await stage.jobs.sql("SELECT available, reserved, captured FROM hourglass.tenant_funds")
    assert (FUNDS, Decimal(0), Decimal(0)) == tuple(funds)


async def assert_the_same_key_makes_one_job(stage: Stage, key: str) -> None:
    """Mended: the create goes through, once."""
    answer = await told(stage.create(key, timeout=10))
    assert "" == answer.reason
    assert not answer.answer.replayed
    assert 1 == await stage.jobs.count("jobs")
    await stage.assert_money_agrees()


@pytest.mark.scenario("M4")
async def test_a_create_whose_connection_breaks_while_it_reserves_fails_closed(stage: Stage) -> None:
    stage.to_postgres.when(b"INSERT INTO hourglass.reservations", stage.to_postgres.sever)
    answer = await told(stage.create("severed"))
    assert ("DATABASE_UNAVAILABLE", False) == (answer.reason, stage.to_postgres.armed)
    await assert_nothing_was_made(stage)
    await assert_the_same_key_makes_one_job(stage, "severed")


@pytest.mark.scenario("M4")
async def test_a_create_whose_reservation_the_store_refuses_fails_closed(stage: Stage) -> None:
    await change(stage.jobs.database, NO_ROOM.format(table="reservations"))
    answer = await told(stage.create("no room"))
    assert answer.failure is not None
    assert answer.ours
    await assert_nothing_was_made(stage)
    await change(stage.jobs.database, ROOM_AGAIN)
    await assert_the_same_key_makes_one_job(stage, "no room")


@pytest.mark.scenario("M4")
async def test_a_short_call_whose_reservation_the_store_refuses_is_not_sent(
    database: TestDatabase, simulated: str
) -> None:
    model = "simulated-fast:tokens=71"
    async with open_callers(database, simulated) as callers:
        before = await callers.funds()
        await change(database, NO_ROOM.format(table="calls"))
        refused = await callers.generate(model)
        assert refused.failure is not None
        assert [] == await callers.all_seen(model)
        await change(database, ROOM_AGAIN)
        assert before == await callers.funds()
        assert (await callers.generate(model)).failure is None


@pytest.mark.faults
@pytest.mark.timeout(120)
@pytest.mark.scenario("M6")
async def test_a_hundred_writers_on_one_tenant_are_all_served(database: TestDatabase, tmp_path: Path) -> None:
    """All create at once, while the worker settles what they made; a writer comes back when it is told to."""
    jobs = {"POLICIES": PRODUCTION}
    async with stack_on(database, tmp_path, jobs=jobs) as stack, calling(stack.jobs) as caller:
        created = await asyncio.gather(*(written(caller, number) for number in range(WRITERS)))

        async def all_ended() -> bool:
            return WRITERS == await count(database, "finished_jobs")

        await eventually(all_ended, within=30.0)
    assert WRITERS == len(set(created)) == await count(database, "job_results")
    has = await funds(database)
    assert (Decimal(0), has["funded"]) == (has["reserved"], has["available"] + has["captured"])
    (deadlocks,) = await rows(
        database, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
    assert 0 == deadlocks["deadlocks"]


async def written(caller: Caller, number: int) -> str:
    """The job of one writer, made within its ten seconds."""
    deadline = time.monotonic() + WRITER_BUDGET
    request = pb.CreateJobRequest(idempotency_key=f"writer {number}", spec=spec_of("simulated-fast:tokens=2"))
    while True:
        try:
            answer = await caller.stub.CreateJob(request, timeout=deadline - time.monotonic())
        except grpc.aio.AioRpcError as error:
            refusal = failure_of(error)
            assert "OVERLOADED" == refusal.reason, refusal
            await asyncio.sleep(RETRY_INFO)
        else:
            return str(answer.job.job_id)


@pytest.mark.scenario("M8")
async def test_a_result_is_accepted_and_captured_at_the_stored_rates_while_pricing_is_down(
    database: TestDatabase, simulated: str
) -> None:
    model = "simulated:tokens=21,tps=21"
    async with (
        pricing_server() as pricing,
        ChaosProxy.to_tcp("127.0.0.1", int(pricing.rpartition(":")[2])) as to_pricing,
        running(database, simulated, jobs={"pricing_target": f"127.0.0.1:{to_pricing.port}"}) as runs,
    ):
        job_id = await runs.create(model)
        await eventually(lambda: runs.seen(model), within=10.0)
        to_pricing.refuse()
        with pytest.raises(grpc.aio.AioRpcError):
            await runs.create("simulated-fast")
        job = await runs.ended(job_id)
        assert job_pb2.JOB_STATE_SUCCEEDED == job.state
        (stored,) = await runs.jobs.sql(
            "SELECT f.rate_card, r.input_tokens, r.cached_input_tokens, r.output_tokens "
            "FROM hourglass.job_facts f JOIN hourglass.job_results r USING (tenant_id, id)"
        )
        usage = Usage(
            input_tokens=stored["input_tokens"],
            cached_input_tokens=stored["cached_input_tokens"],
            output_tokens=stored["output_tokens"],
        )
        charge = RateCard.from_json(load_object(stored["rate_card"])).amount(usage)
        assert charge == amount_of(job.charge.captured_amount) > 0
        await assert_funds_balance(runs)
