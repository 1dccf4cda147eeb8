"""Group commit: one statement for many, each with its own answer."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from budget.errors import DatabaseTimeout, DatabaseUnavailable
from tests.waiting import eventually
from worker.group_commit import GroupCommit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from budget.core import Budget


class Written:
    """A write that waits until it may, and fails as told."""

    def __init__(self, fails: Callable[[Sequence[int]], Exception | None] = lambda _: None) -> None:
        self.batches: list[list[int]] = []
        self.may = asyncio.Event()
        self.may.set()
        self._fails = fails

    async def __call__(self, items: Sequence[int], /, *, budget: Budget) -> Sequence[str]:
        self.batches.append(list(items))
        await self.may.wait()
        if error := self._fails(items):
            raise error
        return [f"answer {item}" for item in items]


@asynccontextmanager
async def _running(write: Written, *, largest: int = 100) -> AsyncIterator[GroupCommit[int, str]]:
    commit = GroupCommit[int, str]("test", write, limit=5.0, largest=largest, writers=1)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(commit.run(stop))
        yield commit
        stop.set()


async def test_everyone_gets_the_answer_to_its_own_item() -> None:
    async with _running(Written()) as commit:
        answers = await asyncio.gather(*(commit.submit(number) for number in range(50)))
    assert [f"answer {number}" for number in range(50)] == answers


async def test_what_comes_during_a_write_goes_with_the_next_one() -> None:
    write = Written()
    write.may.clear()
    async with _running(write, largest=4) as commit:
        first = asyncio.create_task(commit.submit(0))
        await eventually(lambda: write.batches)
        rest = [asyncio.create_task(commit.submit(number)) for number in range(1, 7)]
        await asyncio.sleep(0)
        write.may.set()
        await asyncio.gather(first, *rest)
    assert [[0], [1, 2, 3, 4], [5, 6]] == write.batches


async def test_one_item_at_fault_fails_alone() -> None:
    write = Written(lambda items: ValueError("three") if 3 in items else None)
    async with _running(write) as commit:
        answers = await asyncio.gather(
            *(commit.submit(number) for number in range(5)), return_exceptions=True
        )
    assert ["answer 0", "answer 1", "answer 2", "answer 4"] == answers[:3] + answers[4:]
    assert isinstance(answers[3], ValueError)


async def test_a_lock_that_one_item_waits_for_holds_up_no_other() -> None:
    stuck = DatabaseTimeout(dependency="postgres", method="finish_jobs", limit=5.0)
    write = Written(lambda items: stuck if 1 in items else None)
    async with _running(write) as commit:
        answers = await asyncio.gather(
            *(commit.submit(number) for number in range(3)), return_exceptions=True
        )
    assert ["answer 0", stuck, "answer 2"] == answers


async def test_an_outage_fails_the_batch_at_once() -> None:
    write = Written(lambda _: DatabaseUnavailable(dependency="postgres"))
    async with _running(write) as commit:
        answers = await asyncio.gather(
            *(commit.submit(number) for number in range(9)), return_exceptions=True
        )
    assert [DatabaseUnavailable] * 9 == [type(answer) for answer in answers]
    assert 1 == len(write.batches)


async def test_an_item_whose_waiter_left_is_not_written() -> None:
    write = Written()
    write.may.clear()
    async with _running(write) as commit:
        first = asyncio.create_task(commit.submit(0))
        await eventually(lambda: write.batches)
        gone = asyncio.create_task(commit.submit(1))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        write.may.set()
        await first
    assert [[0]] == write.batches


async def test_what_waits_is_written_before_the_end() -> None:
    write = Written()
    commit = GroupCommit[int, str]("test", write, limit=5.0)
    stop = asyncio.Event()
    waiting = asyncio.create_task(commit.submit(1))
    await asyncio.sleep(0)
    stop.set()
    await commit.run(stop)
    assert "answer 1" == await waiting
