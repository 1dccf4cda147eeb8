"""Every job as the service itself tells it, through GetJob, compared with what stands in its tables."""

import asyncio
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from hourglass.jobs.v1.job_pb2 import AttemptOutcome, Job, JobState
from hourglass.jobs.v1.jobs_service_pb2 import GetJobRequest
from servicekit.wire_money import amount_of
from tests.torture.calls import Calls, Refused
from tests.torture.facts import Facts, Row
from tests.torture.submitters import Acknowledged

AT_ONCE: Final = 8


async def contradictions(calls: Calls, facts: Facts, acknowledged: Sequence[Acknowledged]) -> list[str]:
    """What GetJob says differently, at one server and the other in turns."""
    rows, gate = {row["job_id"]: row for row in facts.jobs}, asyncio.Semaphore(AT_ONCE)

    async def compare(each: Acknowledged) -> list[str]:
        request = GetJobRequest(job_id=each.job_id, include_attempts=True, include_content=True)
        async with gate:
            try:
                answer = await calls.jobs(
                    "GetJob", each.submission.tenant, request, server=each.submission.number
                )
            except Refused as refused:
                return [f"GetJob of {each.job_id}: {refused}"]
        return _differences(answer.job, rows.get(each.job_id), facts)

    found = await asyncio.gather(*map(compare, acknowledged))
    return [difference for differences in found for difference in differences]


def _differences(job: Job, row: Row | None, facts: Facts) -> list[str]:
    if row is None:
        return [f"GetJob knows {job.job_id}, the tables do not"]
    attempts, reservations = facts.attempts[job.job_id], facts.reservations[job.job_id]
    told = (
        JobState.Name(job.state).removeprefix("JOB_STATE_"),
        job.result.text if job.HasField("result") else None,
        [AttemptOutcome.Name(each.outcome).removeprefix("ATTEMPT_OUTCOME_") for each in job.attempts],
        amount_of(job.charge.captured_amount),
        amount_of(job.provider_cost.amount),
    )
    stored = (
        row["state"],
        row["text"],
        [each["outcome"] for each in attempts],
        sum((each["captured"] for each in reservations), Decimal(0)),
        sum((each["cost"] for each in attempts), Decimal(0)),
    )
    return [] if told == stored else [f"GetJob of {job.job_id} says {told}, the tables {stored}"]
