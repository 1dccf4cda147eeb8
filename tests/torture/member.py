"""One process of the system, through all its lives: started, killed, stopped and started again."""

import asyncio
import signal
from dataclasses import replace
from pathlib import Path
from typing import Final

import grpc

from budget.core import Budget
from launcher.errors import ProcessFailed
from launcher.processes import Child, Command
from servicekit.channels import client_options
from tests.torture.tally import Tally

START_LIMIT: Final = 60.0
STOP_LIMIT: Final = 40.0
"""Above what the services' own grace periods add up to."""


class Away(Exception):
    """The server is not there now."""


class Member:
    """One process by its role's name. `address`: where it serves, or did last.

    fixed_port: where it serves once, it serves in all its lives.
    """

    def __init__(self, command: Command, logs: Path, tally: Tally, *, fixed_port: bool = False) -> None:
        self.name = command.name
        self.address = ""
        self.command = command
        self.child: Child | None = None
        self.lives = 0
        self._fixed_port = fixed_port
        self._logs = logs
        self._tally = tally
        self._expected = False
        self._watch: asyncio.Task[None] | None = None
        self._channels: list[grpc.aio.Channel] = []

    async def start(self) -> None:
        """A new life. Raises ProcessFailed."""
        self.lives += 1
        named = replace(self.command, name=f"{self.name}.{self.lives}")
        self._expected = False
        child = await Child.start(named, logs=self._logs, budget=Budget.for_work(START_LIMIT))
        self._channels.append(grpc.aio.insecure_channel(child.address, options=client_options()))
        self._watch = asyncio.create_task(self._mind(child), name=f"life of {named.name}")
        self.child = child
        self.address = child.address
        if self._fixed_port:
            self.command = _listening(self.command, child.address)
        self._tally.tell(f"{named.name} serves at {child.address}, process {child.process_id}")

    async def restart(self) -> None:
        """A new life; a start that fails is a promise broken, and tried once more."""
        for _ in range(2):
            try:
                return await self.start()
            except ProcessFailed as error:
                self._tally.breach(f"{self.name} does not start: {error}")
        return None

    async def kill(self) -> None:
        """SIGKILL."""
        if child := self._give_up():
            await child.kill()

    async def terminate(self) -> None:
        """SIGTERM, and the exit code must be 0."""
        if child := self._give_up():
            exit_code = await child.stop(budget=Budget.for_work(STOP_LIMIT))
            if exit_code != 0:
                self._tally.breach(f"{child.name} ended with {exit_code} after SIGTERM")

    def suspend(self) -> bool:
        """SIGSTOP; False when it is not there."""
        return self._signal(signal.SIGSTOP)

    def resume(self) -> bool:
        """SIGCONT; False when it is not there."""
        return self._signal(signal.SIGCONT)

    @property
    def channel(self) -> grpc.aio.Channel:
        """To its present life. Raises Away."""
        if self.child is None:
            raise Away(self.name)
        return self._channels[-1]

    async def close(self) -> None:
        """End it, and what belongs to it."""
        self.resume()
        await self.kill()
        for channel in self._channels:
            await channel.close()
        if self._watch is not None:
            await self._watch

    def _signal(self, number: signal.Signals) -> bool:
        if self.child is None or not self.child.running:
            return False
        self.child.signal(number)
        return True

    def _give_up(self) -> Child | None:
        child, self.child, self._expected = self.child, None, True
        return child

    async def _mind(self, child: Child) -> None:
        exit_code = await child.ended()
        if not self._expected:
            self.child = None
            self._tally.breach(f"{child.name} ended by itself with {exit_code}: {' | '.join(child.log.tail)}")


def _listening(command: Command, address: str) -> Command:
    variable = next(name for name in command.environment if name.endswith("_LISTEN"))
    return replace(command, environment={**command.environment, variable: address})
