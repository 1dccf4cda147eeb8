"""A key that is known answers, whatever else is out."""

from decimal import Decimal

import pytest

from budget.core import Budget
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from servicekit.admission import AdmissionControl
from servicekit.methods import Admission
from tests.jobs import MODEL, TENANT, of
from tests.postgres import TestDatabase
from tests.scenarios.stage import Stage, staged, told

ROOM = 8
CLOSED = {"admission_minimum": ROOM, "admission_maximum": ROOM}


def close_admission(stage: Stage) -> None:
    """As many calls as may be are in flight."""
    control = stage.jobs.app.server.admission
    assert isinstance(control, AdmissionControl)
    for _ in range(ROOM):
        control.passage("/x/Y", Admission.NORMAL, Budget.for_work(60.0)).arrive()


async def break_everything(stage: Stage) -> None:
    """Pricing is down, quotes are over, funds are gone and the door is closed."""
    stage.to_pricing.black_hole = True
    stage.to_pricing.sever()
    await stage.jobs.sql("UPDATE hourglass.quotes SET expire_time = clock_timestamp()")
    await stage.jobs.sql("UPDATE hourglass.tenant_funds SET funded = funded - available, available = 0")
    close_admission(stage)


@pytest.mark.scenario("B11")
async def test_a_replay_answers_while_pricing_quote_funds_and_admission_are_all_out(
    database: TestDatabase,
) -> None:
    async with staged(database, **CLOSED) as stage:
        request = pb.QuoteRequest(models=[MODEL], input_token_bound=100)
        quote = await stage.jobs.jobs.Quote(request, timeout=5, metadata=of(TENANT))
        by_quote = await stage.create("quoted", quote_id=quote.quote_id)
        live = await stage.create("live")
        calls, open_funds = stage.pricing.calls, await _reserved(stage)
        await break_everything(stage)

        again = [
            await told(stage.create("quoted", quote_id=quote.quote_id)),
            await told(stage.create("live")),
        ]

        assert [by_quote.job.job_id, live.job.job_id] == [one.answer.job.job_id for one in again]
        assert {True} == {one.answer.replayed for one in again}
        assert {"postgres"} == {spend.dependency for one in again for spend in one.ledger.spends}
        assert (calls, open_funds) == (stage.pricing.calls, await _reserved(stage))
        assert "OVERLOADED" == (await told(stage.create("new"))).reason


async def _reserved(stage: Stage) -> Decimal:
    (row,) = await stage.jobs.sql("SELECT reserved FROM hourglass.tenant_funds WHERE tenant_id = $1", TENANT)
    return Decimal(row["reserved"])
