"""Waiting in tests: for a condition, within a bound; never for a time."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

FIRST_INTERVAL = 0.001
LONGEST_INTERVAL = 0.05

Found = TypeVar("Found")


@overload
async def eventually(condition: Callable[[], Awaitable[Found]], within: float = 5.0) -> Found: ...


@overload
async def eventually(condition: Callable[[], Found], within: float = 5.0) -> Found: ...


async def eventually(condition: Callable[[], Any], within: float = 5.0) -> Any:
    """Call `condition` until its (awaited) answer is true, and return that answer.

    AssertionError, with the last answer, when it is still not true after `within` seconds.
    """
    deadline = time.monotonic() + within
    interval = FIRST_INTERVAL
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        if time.monotonic() >= deadline:
            raise AssertionError(
                f"not true within {within} s: {_name(condition)}; the last answer was {found!r}"
            )
        await asyncio.sleep(interval)
        interval = min(interval * 2, LONGEST_INTERVAL)


def _name(condition: Callable[..., object]) -> str:
    try:
        return inspect.getsource(condition).strip()
    except (OSError, TypeError):
        return repr(condition)
