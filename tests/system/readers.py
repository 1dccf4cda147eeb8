"""Readers of one job that leave and come back, and the log of the store that they are compared with."""

import asyncio
from collections.abc import Sequence
from random import Random

from hourglass.jobs.v1.event_pb2 import JobEvent
from hourglass_client import AsyncClient, Transcript


async def read_in_parts(
    client: AsyncClient, job_id: str, *, parts: int, random: Random, longest: int = 12
) -> Transcript:
    """Read a job to its end in up to so many streams; each but the last is left after some events."""
    transcript = Transcript()
    for _ in range(parts - 1):
        leave_after = random.randint(0, longest)
        async with client.watch(job_id, transcript=transcript) as events:
            while leave_after and await anext(events, None) is not None:
                leave_after -= 1
        await asyncio.sleep(random.uniform(0.0, 0.05))
    async with client.watch(job_id, transcript=transcript) as events:
        async for _ in events:
            pass
    return transcript


async def log_of(client: AsyncClient, job_id: str) -> Sequence[JobEvent]:
    """What the store holds of an ended job."""
    async with client.watch(job_id) as events:
        return [event async for event in events]
