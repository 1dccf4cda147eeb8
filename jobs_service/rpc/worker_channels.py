"""Channels to workers, by address: made when first needed, kept for the next reader, closed when too many."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc

Connect = Callable[[str], grpc.aio.Channel]


@dataclass(slots=True)
class _Kept:
    channel: grpc.aio.Channel
    uses: int = 0


class WorkerChannels:
    """Keeps up to `capacity` channels that nobody uses; those in use are never closed."""

    def __init__(self, connect: Connect, *, capacity: int = 64) -> None:
        """connect: makes a channel to an address."""
        self._connect = connect
        self._capacity = capacity
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    @asynccontextmanager
    async def lease(self, address: str) -> AsyncIterator[grpc.aio.Channel]:
        """A channel to a worker, for the length of a block."""
        kept = self._kept.get(address)
        if kept is None:
            kept = self._kept[address] = _Kept(self._connect(address))
        self._kept.move_to_end(address)
        kept.uses += 1
        try:
            yield kept.channel
        finally:
            kept.uses -= 1
            await self._close_surplus()

    async def close(self) -> None:
        """Ends all channels, and whatever still goes on over them."""
        while self._kept:
            _, kept = self._kept.popitem()
            await kept.channel.close()

    async def _close_surplus(self) -> None:
        unused = [address for address, kept in self._kept.items() if kept.uses == 0]
        for address in unused[: max(0, len(unused) - self._capacity)]:
            await self._kept.pop(address).channel.close()
