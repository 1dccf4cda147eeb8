"""A request that fails leaves nothing to the cyclic collector.

Its exceptions hold frames, and frames hold the request: one cycle, and all of it stays until a full
collection, which stops a server of failing requests for a tenth of a second, when it is needed most.
"""

import asyncio
import gc
import types
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from budget.errors import UpstreamTimeout
from budget.policy import Policy
from budget.spend import spend
from servicekit.call import call_of
from tests.integration.servicekit.service import SHAPES, Context, Harness, serving

ROOT = Path(__file__).parents[3]
OURS = tuple(str(ROOT / name) for name in ("budget", "servicekit"))
LIMIT = Policy(dependency="pricing", method="GetPrice", limit=0.005)
REQUESTS = 3


async def hangs(context: Context) -> bytes:
    async with spend(call_of(context).budget, LIMIT):
        await asyncio.sleep(30)
    return b""


async def fails(_context: Context) -> bytes:
    raise UpstreamTimeout(dependency="pricing", method="GetPrice", limit=0.1)


async def breaks(_context: Context) -> bytes:
    raise ZeroDivisionError


async def swallows(context: Context) -> bytes:
    with suppress(UpstreamTimeout):
        await hangs(context)
    return b""


async def uses_all(_context: Context) -> bytes:
    await asyncio.sleep(30)
    return b""


ACTS: Mapping[bytes, Callable[[Context], Awaitable[bytes]]] = {
    b"hangs": hangs,
    b"fails": fails,
    b"breaks": breaks,
    b"swallows": swallows,
    b"uses all": uses_all,
}


def left_by_us() -> Counter[str]:
    """What only the collector can free: our frames by function, our objects by type."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
    finally:
        gc.set_debug(0)
    found: Counter[str] = Counter()
    for garbage in gc.garbage:
        if isinstance(garbage, types.FrameType):
            if garbage.f_code.co_filename.startswith(OURS):
                found[garbage.f_code.co_qualname] += 1
        elif type(garbage).__module__.partition(".")[0] in {"budget", "servicekit"}:
            found[type(garbage).__qualname__] += 1
    gc.garbage.clear()
    return found


async def ask(harness: Harness, shape: str, act: bytes) -> None:
    timeout = 0.1 if act == b"uses all" else 5.0
    for _ in range(REQUESTS):
        await harness.ask(shape, act, timeout=timeout)
    forget(harness)


def forget(harness: Harness) -> None:
    for kept in (harness.calls, harness.logs, harness.servicer.served_in, harness.servicer.closed_in):
        kept.clear()
    harness.exporter.clear()


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_request_that_ends_in_whatever_way_leaves_no_cycle(shape: str, act: bytes) -> None:
    async with serving(ACTS) as harness:
        await ask(harness, shape, act)
        gc.collect()
        gc.disable()
        try:
            await ask(harness, shape, act)
            left = left_by_us()
        finally:
            gc.enable()

    assert Counter() == left


async def leave(harness: Harness) -> None:
    harness.servicer.started.clear()
    call = harness.start("unary_unary", b"uses all")
    await harness.servicer.started.wait()
    call.cancel()
    assert grpc.StatusCode.CANCELLED is await call.code()


async def test_a_caller_that_leaves_leaves_no_cycle() -> None:
    async with serving(ACTS) as harness:
        gc.collect()
        gc.disable()
        try:
            for _ in range(REQUESTS):
                await leave(harness)
            await harness.drain.idle(5.0)
            forget(harness)
            left = left_by_us()
        finally:
            gc.enable()

    assert Counter() == left
