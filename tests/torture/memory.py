"""How much memory the processes take: looked at now and then, the most is kept."""

import asyncio
from collections.abc import Mapping
from typing import Final

import psutil

from tests.torture.stage import Stage

INTERVAL: Final = 2.0
MOST: Final = 400
"""MiB that a service may take; an idle one takes about a quarter of it."""
_MEBIBYTE: Final = 1024 * 1024


class Memory:
    """The most that each role has taken, in MiB."""

    def __init__(self, stage: Stage) -> None:
        self.most: dict[str, int] = {}
        self._stage = stage

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self._look()
            await asyncio.sleep(INTERVAL)

    def excesses(self) -> list[str]:
        """Who took more than is sane."""
        return [f"{role} took {size} MiB" for role, size in self.most.items() if size > MOST]

    def _look(self) -> None:
        for role, size in self._sizes().items():
            self.most[role] = max(size, self.most.get(role, 0))

    def _sizes(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for member in self._stage.members.values():
            if member.child is not None:
                try:
                    size = psutil.Process(member.child.process_id).memory_info().rss // _MEBIBYTE
                except psutil.NoSuchProcess:
                    continue
                role = member.name.partition("-")[0]
                found[role] = max(size, found.get(role, 0))
        return found
