"""Callers of GetJob, in a process of their own: each asks again as soon as it was answered."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import grpc.aio

from bench.budget.children import answer_parent
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from hourglass.jobs.v1.jobs_service_pb2_grpc import JobServiceStub
from servicekit.lifecycle import collect_rarely

_DEADLINE = 1.0


async def call(asked: Mapping[str, Any]) -> dict[str, float]:
    """Answers, the seconds that they took, and how many calls got none."""
    jobs: Sequence[str] = asked["jobs"]
    metadata = (("x-tenant-id", asked["tenant"]),)
    async with grpc.aio.insecure_channel(asked["target"]) as channel:
        stub = JobServiceStub(channel)
        end, refused = time.monotonic() + asked["seconds"], list[str]()

        async def again(first: int) -> int:
            count = 0
            for job_id in cycle((*jobs[first:], *jobs[:first])):
                if time.monotonic() >= end:
                    break
                try:
                    await stub.GetJob(pb.GetJobRequest(job_id=job_id), timeout=_DEADLINE, metadata=metadata)
                    count += 1
                except grpc.aio.AioRpcError as error:
                    refused.append(error.code().name)
            return count

        started = time.monotonic()
        counts = await asyncio.gather(*(again(number) for number in range(asked["callers"])))
    return {"answers": sum(counts), "seconds": time.monotonic() - started, "refused": len(refused)}


if __name__ == "__main__":
    collect_rarely()
    asyncio.run(answer_parent({}, {"call": call}))
