"""Background loops end with their owner, and a crash is loud."""

import asyncio
import signal
import subprocess
import sys

import pytest

from servicekit.lifecycle import LoopEnded, background_loops, every, pause

PROGRAM = """
import asyncio, sys
from servicekit.lifecycle import background_loops, run_process

async def main(stopping):
    async with background_loops(grace=5.0) as loops:
        loops.start("sleeper", {loop})
        print("ready", flush=True)
        await stopping.wait()
        {drain}
    print("drained", flush=True)

async def idle(stop):
    await stop.wait()

async def crash(stop):
    raise ValueError("the loop broke")

sys.exit(run_process(main))
"""


def start(loop: str = "idle", drain: str = "pass") -> subprocess.Popen[str]:
    program = PROGRAM.format(loop=loop, drain=drain)
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert "ready\n" == process.stdout.readline()
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_a_process_drain_and_end_well(number: signal.Signals) -> None:
    process = start()
    process.send_signal(number)
    output, _ = process.communicate(timeout=10)

    assert "drained" in output
    assert 0 == process.returncode


def test_a_second_signal_ends_a_process_at_once() -> None:
    process = start(drain="print('draining', flush=True); await asyncio.Event().wait()")
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    while "draining" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=10)

    assert 128 + signal.SIGTERM == process.returncode
    assert "second SIGTERM" in errors


def test_a_crashed_loop_ends_the_process_loudly() -> None:
    process = start(loop="crash")
    output, errors = process.communicate(timeout=10)

    assert 1 == process.returncode
    assert "the loop broke" in output + errors
    assert "drained" not in output


async def test_a_loop_that_ends_unasked_is_a_crash() -> None:
    async def gives_up(_stop: asyncio.Event) -> None:
        return

    async def process() -> None:
        async with background_loops(grace=1.0) as loops:
            loops.start("reaper", gives_up)
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as group:
        await process()

    (error,) = group.value.exceptions
    assert isinstance(error, LoopEnded)
    assert "reaper" in str(error)


async def test_loops_finish_what_they_have_in_hand() -> None:
    finished = []

    async def loop(stop: asyncio.Event) -> None:
        await stop.wait()
        await asyncio.sleep(0)
        finished.append("last batch")

    async with background_loops(grace=5.0) as loops:
        loops.start("batcher", loop)

    assert ["last batch"] == finished


async def test_a_loop_that_does_not_stop_is_cancelled_after_the_grace() -> None:
    cancelled = []

    async def stubborn(_stop: asyncio.Event) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("stubborn")
            raise

    async with background_loops(grace=0.01) as loops:
        loops.start("stubborn", stubborn)

    assert ["stubborn"] == cancelled


async def test_a_pause_ends_early_when_asked_to_stop() -> None:
    stop = asyncio.Event()
    stop.set()

    async with asyncio.timeout(1.0):
        await pause(3600.0, stop)


async def test_every_repeats_until_asked_to_stop() -> None:
    stop, times = asyncio.Event(), []

    async def action() -> None:
        times.append(1)
        if len(times) == 3:
            stop.set()

    await every(0.001, action, stop)

    assert 3 == len(times)


COLLECTOR = """
import asyncio, gc, sys
from servicekit.lifecycle import run_process

async def main(stopping):
    print(gc.get_freeze_count() > 1000, gc.get_threshold()[0])

sys.exit(run_process(main))
"""


def test_a_process_does_not_walk_through_all_that_it_has_loaded_again_and_again() -> None:
    done = subprocess.run([sys.executable, "-c", COLLECTOR], capture_output=True, text=True, check=True)
    assert "True 50000\n" == done.stdout
