"""A worker's live events on their way to a reader: bounded, so that a slow reader fills no memory."""

import asyncio

from jobs_service.service.ports import FeedEnded
from jobs_store.events import Event


class BufferedFeed:
    """One writer, one reader."""

    def __init__(self, capacity: int) -> None:
        self._items: asyncio.Queue[Event | FeedEnded] = asyncio.Queue(capacity)

    async def put(self, event: Event) -> None:
        """Adds an event; waits while the buffer is full."""
        await self._items.put(event)

    async def end(self, reason: str) -> None:
        """Nothing more comes; `reason` says why."""
        await self._items.put(FeedEnded(reason))

    async def next(self, within: float) -> Event | None:
        """See `ports.Feed`."""
        if self._items.empty():
            try:
                async with asyncio.timeout(max(within, 1e-6)):
                    item = await self._items.get()
            except TimeoutError:
                return None
        else:
            item = self._items.get_nowait()
        if isinstance(item, FeedEnded):
            raise item
        return item
