"""`make torture`: TORTURE_SECONDS of faults (180), by the plan of SEED (a new one each time).

Ends with 1 when a promise was broken or the run has shown too little. `--plan` prints the plan and runs
nothing.
"""

import asyncio
import os
import secrets
import shutil
import sys
from pathlib import Path
from typing import Final

from launcher.processes import PROJECT
from tests.torture.plan import Plan, plan_of
from tests.torture.run import torture

FOLDER: Final = PROJECT / ".hourglass" / "torture"
SECONDS: Final = 180.0
INTERRUPTED: Final = 130


def main(arguments: list[str]) -> int:
    """The exit code."""
    seed = int(os.environ.get("SEED") or secrets.randbelow(2**32))
    seconds = float(os.environ.get("TORTURE_SECONDS") or SECONDS)
    plan = plan_of(seed, seconds)
    if arguments == ["--plan"]:
        print("\n".join(plan.lines()))
        return 0
    print(f"torture: SEED={seed} TORTURE_SECONDS={seconds:g}", flush=True)
    return run(plan, FOLDER / str(seed))


def run(plan: Plan, folder: Path) -> int:
    """Carry it out and tell; what the processes wrote is kept only when something was broken."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        report = asyncio.run(torture(plan, folder))
    except KeyboardInterrupt:
        print(f"interrupted; SEED={plan.seed} replays the plan", file=sys.stderr)
        return INTERRUPTED
    report.write(folder / "report.json")
    print("\n".join(report.lines()))
    if report.broken:
        print(f"see {folder}")
        return 1
    shutil.rmtree(folder / "logs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
