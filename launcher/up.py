"""`python -m launcher.up` (`make up`): the whole stack until Ctrl-C, with lines to paste."""

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Final
from uuid import uuid4

from budget.core import Budget
from launcher.buf_lines import buf_lines
from launcher.failures import EXPECTED, told
from launcher.grpcurl import grpcurl_lines
from launcher.jobsctl_lines import jobsctl_lines
from launcher.ports import require_free
from launcher.processes import PROJECT
from launcher.settings import UpSettings
from launcher.stack import LOGS, START_LIMIT, Plan, Stack, running_with_database

LABEL_WIDTH: Final = 17


async def run(settings: UpSettings) -> None:
    """Run until cancelled. Raises one of `failures.EXPECTED`, also when a process ends by itself."""
    require_free(
        {
            "HOURGLASS_JOBS_LISTEN": settings.jobs_listen,
            "HOURGLASS_PRICING_LISTEN": settings.pricing_listen,
            "HOURGLASS_WORKER_LISTEN": settings.worker_listen,
        }
    )
    plan = Plan(
        jobs={"LISTEN": settings.jobs_listen},
        pricing={"LISTEN": settings.pricing_listen},
        worker={"LISTEN": settings.worker_listen},
    )
    budget = Budget.for_work(START_LIMIT)
    async with running_with_database(settings.database_url, plan, budget=budget, tell=_tell) as stack:
        _say_how_to_use(stack)
        await stack.unless_ended(asyncio.Event().wait())


def main() -> int:
    """The exit code: 0 after Ctrl-C or SIGTERM, 1 when something failed."""
    try:
        asyncio.run(_until_signalled())
    except EXPECTED as error:
        print(told(error), file=sys.stderr)
        return 1
    return 0


async def _until_signalled() -> None:
    """The first signal stops everything in good order, also while it starts; a second one cuts that short."""
    running = asyncio.create_task(run(UpSettings.load()))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _stop, running)
    try:
        await running
    except asyncio.CancelledError:
        print("everything that was started has ended")


def _stop(running: asyncio.Task[None]) -> None:
    print("stopping", flush=True)
    running.cancel()


def _tell(name: str, what: str) -> None:
    print(f"{name.ljust(LABEL_WIDTH)}{what}", flush=True)


def _say_how_to_use(stack: Stack) -> None:
    print(f"\nlogs: {_short(LOGS)}/*.log. Paste these into another terminal, in this folder:\n")
    lines = grpcurl_lines(_program("grpcurl"), stack.jobs, key=f"first-{uuid4().hex[:6]}")
    buf = buf_lines(_program("buf"), stack.jobs)
    for line in (*lines, *buf, *jobsctl_lines(_program("jobsctl"), stack.jobs)):
        print(f"# {line.purpose}\n{line.command}\n")
    print("Ctrl-C ends everything.", flush=True)


def _program(name: str) -> str:
    """The one of the path, else the one that `make setup` installed."""
    return name if shutil.which(name) else _short(Path(sys.executable).parent / name)


def _short(path: Path) -> str:
    return os.path.relpath(path, PROJECT)


if __name__ == "__main__":
    sys.exit(main())
