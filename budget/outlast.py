"""Seeing a piece of work through although the waiting task is cancelled: a commit, a body's close."""

import asyncio
from typing import Any, Final

from budget.core import Budget

_KEPT: Final = 0.75
_LOOK: Final = 1e-3
"""Seconds: enough to see whether it is done already."""


def patience(budget: Budget, limit: float) -> Budget:
    """How long to see something through: at most `limit` seconds, and at most a quarter of the reserve of
    `budget`. The next quarter is the handler's, to say what came of it; at half of the reserve the server
    cuts it off. From then on no answer can be given, and `limit` alone counts."""
    if budget.remaining() <= budget.reserve / 2:
        return Budget.for_work(limit)
    room = budget.remaining() - _KEPT * budget.reserve
    return Budget.for_work(min(limit, max(room, _LOOK)))


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
