"""Group commit: what many runs write at the same time goes in one statement, each with its own answer.

While one statement is under way the next batch gathers, so batches grow with load and nobody waits for a
timer (DeWitt et al., "Implementation Techniques for Main Memory Database Systems", SIGMOD 1984).
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

import structlog

from budget.core import Budget
from budget.errors import BudgetTooLow, CommitOutcomeUnknown, DatabaseUnavailable, PoolTimeout
from budget.policy import Policy
from budget.spans import ClientSpan

if TYPE_CHECKING:
    from collections.abc import Sequence

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Item_contra = TypeVar("Item_contra", contravariant=True)
Answer_co = TypeVar("Answer_co", covariant=True)

OUTAGES: Final = (DatabaseUnavailable, CommitOutcomeUnknown, PoolTimeout, BudgetTooLow)
"""Errors that say nothing about the items: writing them one by one would fail as well."""

_SLACK: Final = 1.0
"""Seconds that a batch's budget exceeds its statement's limit by, so that the limit is what ends it."""
_log = structlog.stdlib.get_logger("hourglass.worker")


class Write(Protocol[Item_contra, Answer_co]):
    """Writes a batch; answers in order."""

    async def __call__(self, items: Sequence[Item_contra], /, *, budget: Budget) -> Sequence[Answer_co]: ...


class GroupCommit(Generic[Item, Answer]):
    """Batches of at most `largest`, up to `writers` of them at once, each under `limit` seconds."""

    def __init__(
        self, name: str, write: Write[Item, Answer], *, limit: float, largest: int = 256, writers: int = 2
    ) -> None:
        self.name: Final = name
        self.batches = 0
        """Statements so far."""
        self._write = write
        self._limit = limit
        self._policy = Policy(dependency="postgres", method=name, limit=limit)
        self._largest = largest
        self._writers = writers
        self._waiting: deque[tuple[Item, asyncio.Future[Answer]]] = deque()
        self._due = asyncio.Event()

    async def submit(self, item: Item) -> Answer:
        """The answer to one item, from the batch that it went with. Raises what its write raised.

        Its wait is a span: the statement itself belongs to all who are in the batch, and to no trace.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        self._due.set()
        with ClientSpan(self._policy):
            return await answer

    async def run(self, stop: asyncio.Event) -> None:
        """Writes until `stop` is set and nothing waits."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._writers):
                group.create_task(self._write_until(stop), name=f"{self.name} {number}")
            await stop.wait()
            self._due.set()

    async def _write_until(self, stop: asyncio.Event) -> None:
        while batch := await self._next(stop):
            await self._commit(batch)

    async def _next(self, stop: asyncio.Event) -> list[tuple[Item, asyncio.Future[Answer]]]:
        while not self._waiting:
            if stop.is_set():
                return []
            self._due.clear()
            await self._due.wait()
        size = min(len(self._waiting), self._largest)
        return [self._waiting.popleft() for _ in range(size)]

    async def _commit(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        """Writes a batch. One that fails for what is in it is written item by item: one fault fails alone."""
        wanted = [(item, answer) for item, answer in batch if not answer.done()]
        if not wanted:
            return
        self.batches += 1
        try:
            budget = Budget.for_work(self._limit + _SLACK)
            answers = await self._write([item for item, _ in wanted], budget=budget)
        except OUTAGES as error:
            _fail(wanted, error)
        except Exception as error:  # noqa: BLE001 - whoever waits for the item gets it
            await self._after_failure(wanted, error)
        else:
            for (_, answer), given in zip(wanted, answers, strict=True):
                if not answer.done():
                    answer.set_result(given)

    async def _after_failure(
        self, batch: list[tuple[Item, asyncio.Future[Answer]]], error: Exception
    ) -> None:
        if len(batch) == 1:
            _fail(batch, error)
            return
        _log.warning(
            "a batch failed: written one by one", batch=self.name, size=len(batch), error=type(error).__name__
        )
        for one in batch:
            await self._commit([one])


def _fail(batch: list[tuple[Item, asyncio.Future[Answer]]], error: Exception) -> None:
    for _, answer in batch:
        if not answer.done():
            answer.set_exception(error)
