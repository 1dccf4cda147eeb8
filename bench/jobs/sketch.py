"""The other side: two bare statements, for somebody who needs no attempts, no money and no events.

Four loops in one process, a hundred jobs a statement, fenced by a token. It is as fast as Postgres lets it.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from bench.budget.children import answer_parent
from bench.jobs.statements import statement

if TYPE_CHECKING:
    from collections.abc import Mapping

LOOPS: Final = 4
BATCH: Final = 100
RESULT: Final = '{"text": "Hello there.", "finish_reason": "stop", "input_tokens": 12, "output_tokens": 3}'


class Sketch:
    """Answers one command: drain the table."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record]) -> None:
        self._pool = pool

    async def drain(self, _: Mapping[str, Any]) -> dict[str, float]:
        """Jobs, and the seconds and processor seconds that they took."""
        begun, cpu = time.monotonic(), time.process_time()
        jobs = sum(await asyncio.gather(*(self._loop() for _ in range(LOOPS))))
        return {"jobs": jobs, "seconds": time.monotonic() - begun, "cpu": time.process_time() - cpu}

    async def _loop(self) -> int:
        done = 0
        while claimed := await self._pool.fetch(statement("claim_sketch"), BATCH):
            ids, tokens = [row["id"] for row in claimed], [row["run_token"] for row in claimed]
            await self._pool.execute(statement("finish_sketch"), ids, tokens, [RESULT] * len(ids))
            done += len(claimed)
        return done


async def main(dsn: str) -> None:
    """Answers until the parent closes our input."""
    async with asyncpg.create_pool(dsn, min_size=LOOPS, max_size=LOOPS, reset=_nothing_to_reset) as pool:
        await answer_parent({}, {"drain": Sketch(pool).drain})


async def _nothing_to_reset(_: object) -> None:
    """No session state."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dsn", required=True)
    asyncio.run(main(parser.parse_args().dsn))
