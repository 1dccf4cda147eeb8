"""One stream of a worker for all watchers of a job."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import UUID

import pytest
import structlog
from typing_extensions import override

from budget.core import Budget
from budget.errors import BudgetError, UpstreamError
from jobs_service.service.ports import FeedEnded
from jobs_service.service.sharing import ENDED, SharedFeed, SharedProgress
from jobs_store.events import Event, EventKind
from jobs_store.identifiers import JobId, Sequence, TenantId, sequence
from tests.unit.jobs.simulated_job import event
from tests.waiting import eventually

JOB = JobId(UUID(int=1))
TENANT = TenantId("demo")
HELD = 8


class Said(AsyncIterator[Event]):
    """What a stream says, and how it ends."""

    def __init__(self) -> None:
        self._items: asyncio.Queue[Event | BudgetError | StopAsyncIteration] = asyncio.Queue()
        self.put = self._items.put

    @override
    async def __anext__(self) -> Event:
        item = await self._items.get()
        if isinstance(item, Event):
            return item
        raise item


class Worker:
    """A worker whose stream says what a test tells it. `opened`: after which cursors it was asked."""

    def __init__(self) -> None:
        self.opened: list[Sequence] = []
        self.open = 0
        self.said = Said()
        self.broken: Exception | None = None

    @asynccontextmanager
    async def events(
        self, address: str, tenant: TenantId, job_id: JobId, *, after: Sequence, budget: Budget
    ) -> AsyncIterator[AsyncIterator[Event]]:
        self.opened.append(after)
        if self.broken is not None:
            raise self.broken
        self.open += 1
        self.said = Said()
        try:
            yield self.said
        finally:
            self.open -= 1

    async def say(self, *numbers: int) -> None:
        for number in numbers:
            await self.said.put(event(sequence(2, number), EventKind.TOKEN_DELTA))

    async def end(self, error: BudgetError | None = None) -> None:
        await self.said.put(error or StopAsyncIteration())


def refusal(reason: str) -> UpstreamError:
    """What a worker says when it will not go on."""
    return UpstreamError(
        dependency="worker", method="StreamProgress", code="UNAVAILABLE", upstream_reason=reason
    )


class Watchers:
    """Those who follow the job, each through the one `SharedProgress`."""

    def __init__(self, shared: SharedProgress, stack: AsyncExitStack) -> None:
        self._shared = shared
        self._stack = stack

    async def follow(self, after: int, *, address: str = "worker") -> SharedFeed:
        budget, cursor = Budget.for_stream(incoming=None), sequence(2, after)
        return await self._stack.enter_async_context(
            self._shared.follow(address, TENANT, JOB, after=cursor, budget=budget)
        )


@asynccontextmanager
async def sharing() -> AsyncIterator[tuple[Worker, Watchers, SharedProgress]]:
    worker = Worker()
    shared = SharedProgress(worker, held=HELD)
    async with AsyncExitStack() as stack:
        yield worker, Watchers(shared, stack), shared
    assert (0, 0) == (worker.open, len(shared.streams))


async def next_of(feed: SharedFeed, within: float) -> Event | None:
    event = feed.ready()
    return event if event is not None or not await feed.arrival(within) else feed.ready()


async def take(feed: SharedFeed, count: int) -> list[int]:
    events = [await next_of(feed, 5.0) for _ in range(count)]
    return [each.sequence & 0xFFFFFFFF for each in events if each is not None]


async def test_all_watchers_of_a_job_share_one_stream_of_its_worker() -> None:
    async with sharing() as (worker, watchers, _):
        feeds = [await watchers.follow(3) for _ in range(100)]
        await eventually(lambda: worker.open)
        await worker.say(4, 5)
        assert [[4, 5]] * 100 == [await take(feed, 2) for feed in feeds]
        assert [sequence(2, 3)] == worker.opened


async def test_a_watcher_that_joins_later_goes_on_behind_its_own_cursor() -> None:
    async with sharing() as (worker, watchers, _):
        first = await watchers.follow(3)
        await eventually(lambda: worker.open)
        await worker.say(4, 5, 6, 7)
        assert [4, 5, 6, 7] == await take(first, 4)
        assert [6, 7] == await take(await watchers.follow(5), 2)


@pytest.mark.scenario("W4")
async def test_what_is_held_for_those_who_lag_is_bounded() -> None:
    async with sharing() as (worker, watchers, _):
        quick = await watchers.follow(3)
        await eventually(lambda: worker.open)
        for number in range(4, 1004):
            await worker.say(number)
            assert [number] == await take(quick, 1)
        late = await watchers.follow(3)
        assert 2 * HELD > len(await left_of(late))


async def left_of(feed: SharedFeed) -> list[int]:
    found: list[int] = []
    while (each := await next_of(feed, 0.001)) is not None:
        found.append(each.sequence)
    return found


async def test_a_watcher_whose_place_is_gone_is_told_to_read_again() -> None:
    async with sharing() as (worker, watchers, _):
        slow = await watchers.follow(3)
        await eventually(lambda: worker.open)
        await worker.say(4)
        assert [4] == await take(slow, 1)
        quick = await watchers.follow(4)
        for number in range(5, 100):
            await worker.say(number)
            assert [number] == await take(quick, 1)
        with pytest.raises(FeedEnded) as ended:
            await take(slow, 1)
        assert "RE_READ" == ended.value.cause


async def test_everybody_reads_what_is_left_and_then_hears_why_the_stream_ended() -> None:
    async with sharing() as (worker, watchers, _):
        feeds = [await watchers.follow(3) for _ in range(3)]
        await eventually(lambda: worker.open)
        await worker.say(4)
        await worker.end(refusal("NOT_OWNER"))
        for feed in feeds:
            assert [4] == await take(feed, 1)
            with pytest.raises(FeedEnded) as ended:
                await next_of(feed, 5.0)
            assert "NOT_OWNER" == ended.value.cause


async def test_a_stream_that_ends_with_the_run_says_so() -> None:
    async with sharing() as (worker, watchers, _):
        feed = await watchers.follow(3)
        await eventually(lambda: worker.open)
        await worker.end()
        with pytest.raises(FeedEnded) as ended:
            await next_of(feed, 5.0)
        assert ENDED == ended.value.cause


async def test_a_fault_in_the_stream_is_logged_once_and_ends_it_for_all() -> None:
    with structlog.testing.capture_logs() as logs:
        async with sharing() as (worker, watchers, _):
            worker.broken = ZeroDivisionError()
            for feed in [await watchers.follow(3) for _ in range(3)]:
                with pytest.raises(FeedEnded) as ended:
                    await next_of(feed, 5.0)
                assert "INTERNAL" == ended.value.cause

    assert ["a shared stream failed"] == [line["event"] for line in logs if line["log_level"] == "error"]


async def test_who_follows_after_a_stream_ended_opens_the_next_one() -> None:
    async with sharing() as (worker, watchers, _):
        first = await watchers.follow(3)
        await eventually(lambda: worker.open)
        await worker.end(refusal("RE_READ"))
        with pytest.raises(FeedEnded):
            await next_of(first, 5.0)
        second = await watchers.follow(9)
        await eventually(lambda: len(worker.opened) == 2)
        await worker.say(10)
        assert [10] == await take(second, 1)


async def test_another_worker_of_the_job_has_a_stream_of_its_own() -> None:
    async with sharing() as (worker, watchers, shared):
        await watchers.follow(3)
        await watchers.follow(3, address="another")
        await eventually(lambda: worker.open == 2)
        assert 2 == len(shared.streams)


async def test_a_watcher_that_is_cancelled_leaves_the_stream_to_the_others() -> None:
    async with sharing() as (worker, watchers, shared):
        kept = await watchers.follow(3)
        await eventually(lambda: worker.open)

        async def follow() -> None:
            budget = Budget.for_stream(incoming=None)
            async with shared.follow("worker", TENANT, JOB, after=sequence(2, 3), budget=budget) as feed:
                await next_of(feed, 60.0)

        leaving = asyncio.create_task(follow())
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait({leaving})
        await worker.say(4)
        assert [4] == await take(kept, 1)
