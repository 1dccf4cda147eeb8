"""What callers do every day, against a running stack: nothing of it may need more than it was promised."""

from hourglass.jobs.v1 import event_pb2, job_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from servicekit.wire_money import amount_of
from tests.jobs import TENANT, of, seconds
from tests.scenarios.runs import Runs
from tests.waiting import eventually

SUCCEEDED, CANCELLED = job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_CANCELLED
WATCH_LIMIT = 20.0


async def watched(runs: Runs, job_id: str) -> list[event_pb2.JobEvent]:
    """All events of a job, from one watch that nobody ends before the job does."""
    stream = runs.jobs.jobs.WatchJob(
        pb.WatchJobRequest(job_id=job_id), timeout=WATCH_LIMIT, metadata=of(TENANT)
    )
    return [message.event async for message in stream if message.HasField("event")]


async def create_watch_and_get(runs: Runs) -> None:
    """A job from its create to its receipt, watched from the beginning."""
    job_id = await runs.create("simulated:tokens=20,tps=41")
    events = await watched(runs, job_id)
    job = await runs.get(job_id)
    assert SUCCEEDED == job.state
    text = "".join(event.token_delta.text for event in events if event.HasField("token_delta"))
    assert 20 == len(text.split())
    assert SUCCEEDED == events[-1].state_changed.state
    assert [job_pb2.ATTEMPT_OUTCOME_SUCCEEDED] == [attempt.outcome for attempt in job.attempts]
    assert amount_of(job.charge.captured_amount) > 0


async def wait_for_another(runs: Runs) -> None:
    """WaitJob answers when the job is terminal, well before its budget is over."""
    job_id = await runs.create("simulated:tokens=10,tps=41")
    request = pb.WaitJobRequest(job_id=job_id)
    answer = await runs.jobs.jobs.WaitJob(request, timeout=WATCH_LIMIT, metadata=of(TENANT))
    assert SUCCEEDED == answer.job.state


async def cancel_one_that_runs(runs: Runs) -> None:
    """A cancel reaches the provider's call, and the caller learns of the end."""
    model = "simulated-drip:tps=11"
    before = len(await runs.seen(model))
    job_id = await runs.create(model)

    async def streams() -> bool:
        return any(call["tokens_sent"] > 0 for call in (await runs.seen(model))[before:])

    await eventually(streams, within=10.0)
    request = pb.CancelJobRequest(job_id=job_id, reason="enough")
    await runs.jobs.jobs.CancelJob(request, timeout=5, metadata=of(TENANT))
    assert CANCELLED == (await runs.ended(job_id)).state

    async def closed() -> bool:
        return ["closed_by_client"] == [call["state"] for call in (await runs.seen(model))[before:]]

    await eventually(closed)


async def expire_one_that_waits(runs: Runs) -> None:
    """Nobody serves its lane: it expires, and its money comes back."""
    job_id = await runs.create("smollm2-135m", queue_timeout_duration=seconds(1.0))
    assert job_pb2.JOB_STATE_EXPIRED == (await runs.ended(job_id)).state


async def everything_works(runs: Runs) -> None:
    """All of the above, and the money agrees afterwards."""
    await create_watch_and_get(runs)
    await wait_for_another(runs)
    await cancel_one_that_runs(runs)
    await expire_one_that_waits(runs)
    await assert_funds_balance(runs)


async def assert_funds_balance(runs: Runs) -> None:
    """Nothing is reserved any more, and nothing was lost."""
    (funds,) = await runs.jobs.sql(
        "SELECT funded, available, reserved, captured FROM hourglass.tenant_funds WHERE tenant_id = $1",
        TENANT,
    )
    assert 0 == funds["reserved"]
    assert funds["funded"] == funds["available"] + funds["captured"]
