"""The launcher's child processes: started, watched, ended, and never left behind."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from budget.core import Budget
from launcher.errors import ProcessEnded, ProcessNotReady
from launcher.processes import Child, Command, together, unless_ended
from launcher.ready_lines import grpc_address
from tests.waiting import eventually

PARENT = """
import asyncio, sys
from pathlib import Path
from budget.core import Budget
from launcher.processes import Child
from tests.system.test_child_processes import command
async def main():
    child = await Child.start(command("ready"), logs=Path(sys.argv[1]), budget=Budget.for_work(20))
    print(child.process_id, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


def command(mode: str) -> Command:
    return Command(name=mode, module="tests.child", arguments=(mode,), ready=grpc_address)


async def start(mode: str, logs: Path, *, within: float = 20.0) -> Child:
    return await Child.start(command(mode), logs=logs, budget=Budget.for_work(within))


async def forever() -> None:
    await asyncio.Event().wait()


async def test_a_child_is_started_once_it_says_where_it_serves_and_ends_on_sigterm(tmp_path: Path) -> None:
    child = await start("ready", tmp_path)
    assert child.address == "nowhere:1"
    assert await child.stop(budget=Budget.for_work(10)) == -signal.SIGTERM
    assert "nowhere:1" in (tmp_path / "ready.log").read_text()


async def test_a_child_that_dies_is_told_with_the_end_of_its_log_and_where_all_of_it_is(
    tmp_path: Path,
) -> None:
    with pytest.raises(ProcessEnded) as failure:
        await start("dies", tmp_path)
    text = str(failure.value)
    assert failure.value.exit_code == 3
    assert text.startswith("dies ended with exit code 3")
    assert "line 99" in text
    assert "line 10\n" not in text
    assert "no luck error=Bad: why" in text
    assert str(tmp_path / "dies.log") in text
    assert "line 0\n" in (tmp_path / "dies.log").read_text()


async def test_a_child_that_never_becomes_ready_is_told_and_does_not_stay(tmp_path: Path) -> None:
    with pytest.raises(ProcessNotReady, match=r"mute was not ready within 1\.0 s"):
        await start("mute", tmp_path, within=1.0)
    assert not [child for child in psutil.Process().children() if "mute" in child.cmdline()]


async def test_a_child_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    child = await start("deaf", tmp_path)
    assert await child.stop(budget=Budget.for_work(0.3)) == -signal.SIGKILL


async def test_a_line_without_end_does_not_stop_the_reading(tmp_path: Path) -> None:
    child = await start("wordy", tmp_path)
    assert child.address == "nowhere:1"
    await child.kill()


async def test_work_is_given_up_when_a_child_dies(tmp_path: Path) -> None:
    child = await start("ready", tmp_path)
    work = asyncio.create_task(unless_ended([child], forever()))
    child.signal(signal.SIGKILL)
    with pytest.raises(ProcessEnded, match="ready was killed by signal 9"):
        await work


async def test_a_failure_behind_a_dead_child_is_told_as_its_death(tmp_path: Path) -> None:
    child = await start("ready", tmp_path)

    async def fail() -> None:
        child.signal(signal.SIGKILL)
        raise ConnectionError("connection lost")

    with pytest.raises(ProcessEnded) as failure:
        await unless_ended([child], fail())
    assert isinstance(failure.value.__cause__, ConnectionError)


async def test_work_that_ends_in_time_gives_its_result_or_its_error(tmp_path: Path) -> None:
    child = await start("ready", tmp_path)

    async def fail() -> None:
        raise ConnectionError("refused")

    assert await unless_ended([child], asyncio.sleep(0, "done")) == "done"
    with pytest.raises(ConnectionError, match="refused"):
        await unless_ended([child], fail())
    await child.kill()


async def test_the_first_failure_of_many_is_raised_by_itself() -> None:
    async def fail() -> None:
        raise ConnectionError("refused")

    with pytest.raises(ConnectionError):
        await together(forever(), fail())


async def test_a_child_ends_when_its_launcher_is_killed(tmp_path: Path) -> None:
    launcher = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, str(tmp_path), stdout=asyncio.subprocess.PIPE, env={**os.environ}
    )
    assert launcher.stdout is not None
    child = psutil.Process(int(await launcher.stdout.readline()))
    assert child.is_running()
    launcher.kill()
    await launcher.wait()
    await eventually(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, within=10.0)
