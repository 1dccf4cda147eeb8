"""Seeing a piece of work through although the waiting task is cancelled: a commit, a body's close."""

import asyncio
from typing import Any

from budget.core import Budget


def patience(budget: Budget, limit: float) -> Budget:
    """How long to see something through: at most `limit` seconds, and at most half of the reserve of
    `budget`, so that an answer can still be given. When no answer can be given any more, `limit` alone
    counts."""
    room = budget.remaining() - budget.reserve / 2
    return Budget.for_work(min(limit, room) if room > 0 else limit)


async def outlast(work: "asyncio.Task[Any]", *, budget: Budget) -> bool:
    """Waits until `work` is done or `budget` is over, through any cancel; returns whether it is done.

    The cancel is kept, not lost: it still counts in `Task.cancelling`, and whoever calls this inside a
    `spend` gets it raised again at the end of that block.
    """
    while not work.done() and budget.remaining() > 0:
        try:
            await asyncio.wait({work}, timeout=budget.remaining())
        except asyncio.CancelledError:
            continue
    return work.done()
