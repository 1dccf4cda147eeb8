"""One run: the plan carried out on a stage, what was broken, and the report."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.torture import logs
from tests.torture.calls import Calls
from tests.torture.checks import all_broken
from tests.torture.facts import Facts, gathered
from tests.torture.faults import Faults
from tests.torture.funds import Funds
from tests.torture.memory import Memory
from tests.torture.offenders import write_offenders
from tests.torture.plan import Plan
from tests.torture.readback import contradictions
from tests.torture.report import Report, count_provider_strikes, report_of, shortfalls
from tests.torture.stage import Stage, staged
from tests.torture.submitters import Submitters
from tests.torture.tally import Tally
from tests.torture.verifier import Verifier
from tests.torture.watchers import Watchers

SETTLE_LIMIT: Final = 90.0
"""Seconds after the plan's, for late faults and for everything to come to its end."""


class Run:
    """The parts of a run."""

    def __init__(self, plan: Plan, stage: Stage, tally: Tally) -> None:
        self._plan = plan
        self._stage = stage
        self._tally = tally
        self._calls = Calls(stage, tally)
        self._funds = Funds(self._calls)
        self._watchers = Watchers(self._calls, tally)
        self._submitters = Submitters(plan, self._calls, self._funds, self._watchers, tally)
        self._faults = Faults(plan, stage, self._funds, self._submitters.see_through, tally)
        self._memory = Memory(stage)
        self._verifier = Verifier(self._calls, tally)

    async def carry_out(self) -> None:
        """Everything that is planned, until all jobs have come to their ends or the limit is over."""
        await self._funds.open()
        self._tally.begin()
        beside = [
            asyncio.create_task(self._memory.run(), name="memory"),
            asyncio.create_task(self._verifier.run(), name="verifier"),
        ]
        try:
            async with asyncio.timeout(self._plan.seconds + SETTLE_LIMIT), asyncio.TaskGroup() as group:
                group.create_task(self._faults.run(), name="faults")
                group.create_task(self._submitters.run(), name="submitters")
        except TimeoutError:
            self._tally.breach("not everything came to its end")
            self._tally.breaches(self._submitters.unfinished())
        finally:
            await _cancelled(beside)

    async def check(self) -> Facts:
        """Compare what is with what was promised."""
        acknowledged = list(self._submitters.acknowledged.values())
        facts = await gathered(self._stage.owner_dsn, self._stage.provider.address)
        await self._verifier.at_the_end()
        self._tally.breaches(await contradictions(self._calls, facts, acknowledged))
        found = all_broken(
            facts, acknowledged=acknowledged, watched=self._watchers.finished, moved=self._funds.moved
        )
        for name, problems in found.items():
            self._tally.breaches([f"{name}: {problem}" for problem in problems])
        count_provider_strikes(facts, self._tally)
        self._tally.breaches(shortfalls(facts, self._tally, self._plan.seconds))
        self._tally.breaches(self._memory.excesses())
        return facts

    def report(self, facts: Facts) -> Report:
        """What came of it."""
        return report_of(
            facts, self._tally, seed=self._plan.seed, seconds=self._plan.seconds, memory=self._memory.most
        )


async def torture(plan: Plan, folder: Path) -> Report:
    """Run a plan; what the processes wrote and a diary are left in the folder."""
    tally = Tally(folder / "diary.txt")
    try:
        async with staged(folder / "logs", tally) as stage:
            run = Run(plan, stage, tally)
            await run.carry_out()
            facts = await run.check()
            await stage.terminate()
            write_offenders(folder / "offenders.json", facts, tally.broken)
        tally.breaches(list(logs.complaints(folder / "logs")))
        return run.report(facts)
    finally:
        tally.close()


async def _cancelled(tasks: Sequence[asyncio.Task[None]]) -> None:
    """End them; what one of them failed with is raised."""
    for task in tasks:
        task.cancel()
    for ending in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(ending, Exception):
            raise ending
