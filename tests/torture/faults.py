"""Carries the disturbances of a plan out: each track in order, no disturbance left out."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Final

from tests.torture.funds import Funds
from tests.torture.kinds import Kind
from tests.torture.member import Member
from tests.torture.plan import Disturbance, Plan
from tests.torture.planned_jobs import Submission
from tests.torture.settings import LEASE
from tests.torture.stage import Stage, Ways
from tests.torture.tally import Tally
from tests.torture.wire import Wire

COMMIT_WAIT: Final = 1.5
"""Seconds for a process to send a COMMIT, before another one's turn comes."""
ROUNDS: Final = 6
SEARCH_INTERVAL: Final = 0.2

Submit = Callable[[Submission], Coroutine[Any, Any, None]]
Striker = Callable[[Disturbance], Coroutine[Any, Any, bool]]


class Faults:
    """Everything that is done to the system from below; callers do their part themselves."""

    def __init__(self, plan: Plan, stage: Stage, funds: Funds, submit: Submit, tally: Tally) -> None:
        self._plan = plan
        self._stage = stage
        self._funds = funds
        self._tally = tally
        self._submit = submit
        self._probes = iter(plan.probes)
        self._probing: set[asyncio.Task[None]] = set()
        self._group: asyncio.TaskGroup
        self._strikers: Mapping[Kind, Striker] = {
            Kind.KILL_WORKER: self._kill,
            Kind.KILL_JOBS: self._kill,
            Kind.KILL_PRICING: self._kill,
            Kind.STALL_WORKER: self._stall_past_lease,
            Kind.STALL_JOBS: self._stall,
            Kind.TERMINATE: self._terminate,
            Kind.RESTART_POSTGRES: self._restart_postgres,
            Kind.COMMIT_LOST: self._commit,
            Kind.COMMIT_REPLY_LOST: self._commit,
            Kind.COMMIT_REPLY_LATE: self._commit,
            Kind.DATABASE_SILENT: self._silence,
            Kind.WAKE_UPS_CUT: self._cut_wake_ups,
            Kind.WAKE_UPS_SILENT: self._silence_wake_ups,
            Kind.EMPTY_FUNDS: self._empty_funds,
        }

    async def run(self) -> None:
        """All tracks, to their ends."""
        tracks = sorted({each.track for each in self._plan.disturbances})
        async with asyncio.TaskGroup() as self._group:
            for track in tracks:
                self._group.create_task(self._run_track(track), name=f"track {track}")

    async def _run_track(self, track: str) -> None:
        for disturbance in self._plan.track(track):
            await asyncio.sleep(max(0.0, disturbance.at - self._tally.elapsed))
            if await self._strikers[disturbance.kind](disturbance):
                late = self._tally.elapsed - disturbance.at
                what = f"{' '.join(disturbance.targets)} for {disturbance.duration} s"
                self._tally.strike(disturbance.kind, f"{what}, over {late:.1f} s after its time")
            else:
                self._tally.tell(f"{disturbance.kind}: could not strike")

    def _target(self, disturbance: Disturbance) -> Member:
        return self._stage.members[disturbance.targets[0]]

    async def _kill(self, disturbance: Disturbance) -> bool:
        member = self._target(disturbance)
        was_there = member.child is not None
        await member.kill()
        await asyncio.sleep(disturbance.duration)
        await member.restart()
        return was_there

    async def _terminate(self, disturbance: Disturbance) -> bool:
        member = self._target(disturbance)
        was_there = member.child is not None
        await member.terminate()
        await asyncio.sleep(disturbance.duration)
        await member.restart()
        return was_there

    async def _stall_past_lease(self, disturbance: Disturbance) -> bool:
        return await self._stall(replace(disturbance, duration=LEASE + disturbance.duration))

    async def _stall(self, disturbance: Disturbance) -> bool:
        member = self._target(disturbance)
        stopped = member.suspend()
        await asyncio.sleep(disturbance.duration)
        return stopped and member.resume()

    async def _restart_postgres(self, disturbance: Disturbance) -> bool:
        await self._stage.restart_postgres(down=disturbance.duration)
        return True

    async def _commit(self, disturbance: Disturbance) -> bool:
        """The first of the targets that commits something."""
        for _ in range(ROUNDS):
            for name in disturbance.targets:
                way = self._stage.ways[name].data
                if await way.strike_commit(disturbance.kind, hold=disturbance.duration, within=COMMIT_WAIT):
                    self._tally.tell(f"{disturbance.kind}: of {name}")
                    return True
        return False

    async def _silence(self, disturbance: Disturbance) -> bool:
        way = await self._open(disturbance, lambda ways: ways.data)
        way.withhold()
        await asyncio.sleep(disturbance.duration)
        way.sever()
        way.flow()
        return True

    async def _cut_wake_ups(self, disturbance: Disturbance) -> bool:
        (await self._open(disturbance, lambda ways: ways.wake_ups)).sever()
        return True

    async def _silence_wake_ups(self, disturbance: Disturbance) -> bool:
        way = await self._open(disturbance, lambda ways: ways.wake_ups)
        way.freeze()
        await asyncio.sleep(disturbance.duration)
        way.flow()
        return True

    async def _open(self, disturbance: Disturbance, part: Callable[[Ways], Wire]) -> Wire:
        """The way of the first of the targets that has connections now."""
        while True:
            for name in disturbance.targets:
                way = part(self._stage.ways[name])
                if self._stage.members[name].child is not None and way.open:
                    return way
            await asyncio.sleep(SEARCH_INTERVAL)

    async def _empty_funds(self, disturbance: Disturbance) -> bool:
        probe = next(self._probes)
        return await self._funds.run_empty(
            at_least=disturbance.duration,
            probe=lambda: self._probing.add(self._group.create_task(self._submit(probe), name=probe.key)),
        )
