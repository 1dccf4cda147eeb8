"""Waiting for a signal, in one process."""

import asyncio
from itertools import count

import pytest

from budget.core import Budget
from jobs_store.identifiers import TenantId, new_job_id
from jobs_store.wakeups import Subscriptions, Wakeup, cancel_asked, job_changed, jobs_ready, silent
from tests.waiting import eventually

SOON = 0.02
LONG = 10.0
READY = jobs_ready("simulated/fast")
OTHER = jobs_ready("simulated/slow")


def a_budget(seconds: float = LONG) -> Budget:
    return Budget.for_work(seconds)


async def test_a_wait_ends_at_the_signal() -> None:
    subscriptions = Subscriptions()
    with subscriptions.subscribe(READY) as wakeup:
        waiting = asyncio.create_task(wakeup.wait(a_budget()))
        await asyncio.sleep(0)
        subscriptions.wake(READY)
        assert await waiting


async def test_a_wait_without_a_signal_ends_with_its_budget() -> None:
    with Subscriptions().subscribe(READY) as wakeup:
        budget = a_budget(SOON)
        assert not await wakeup.wait(budget)
        assert 0.0 == budget.remaining()


async def test_a_callers_wait_leaves_the_time_to_answer() -> None:
    budget = Budget.root(incoming=0.1, default=None, cap=None)
    with Subscriptions().subscribe(READY) as wakeup:
        assert not await wakeup.wait(budget)
    assert budget.remaining() > 0


async def test_a_wait_without_a_limit_waits_for_the_signal() -> None:
    subscriptions = Subscriptions()
    with subscriptions.subscribe(READY) as wakeup:
        waiting = asyncio.create_task(wakeup.wait(Budget.for_stream(incoming=None)))
        await asyncio.sleep(0)
        subscriptions.wake(READY)
        assert await waiting


async def test_a_signal_between_two_waits_is_not_lost() -> None:
    subscriptions = Subscriptions()
    with subscriptions.subscribe(READY) as wakeup:
        subscriptions.wake(READY)
        assert await wakeup.wait(a_budget())
        assert not await wakeup.wait(a_budget(SOON)), "one signal wakes once"


async def test_a_signal_is_seen_with_no_time_left() -> None:
    subscriptions = Subscriptions()
    spent = Budget.for_work(1.0, clock=count(step=2).__next__)
    with subscriptions.subscribe(READY) as wakeup:
        assert not await wakeup.wait(spent)
        subscriptions.wake(READY)
        assert await wakeup.wait(spent)


async def test_a_cancelled_wait_keeps_the_signal_for_the_next_one() -> None:
    wakeup = Wakeup()
    waiting = asyncio.create_task(wakeup.wait(a_budget()))
    await asyncio.sleep(0)
    wakeup.wake()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await wakeup.wait(a_budget(SOON))


async def test_any_of_several_signals_wakes() -> None:
    subscriptions = Subscriptions()
    with subscriptions.subscribe(READY, OTHER) as wakeup:
        for signal in (READY, OTHER):
            subscriptions.wake(signal)
            assert await wakeup.wait(a_budget())


async def test_only_who_waits_for_a_signal_is_woken() -> None:
    subscriptions = Subscriptions()
    tenant, job_id = TenantId("acme"), new_job_id()
    with (
        subscriptions.subscribe(job_changed(tenant, job_id)) as watcher,
        subscriptions.subscribe(job_changed(tenant, job_id)) as other_watcher,
        subscriptions.subscribe(cancel_asked(tenant, job_id)) as run,
        subscriptions.subscribe(job_changed(TenantId("umbrella"), job_id)) as stranger,
    ):
        subscriptions.wake(job_changed(tenant, job_id))
        woken = [await each.wait(a_budget(SOON)) for each in (watcher, other_watcher, run, stranger)]
    assert [True, True, False, False] == woken


async def test_catching_up_wakes_everyone() -> None:
    subscriptions = Subscriptions()
    with subscriptions.subscribe(READY) as one, subscriptions.subscribe(OTHER) as other:
        subscriptions.wake_all()
        assert [True, True] == [await each.wait(a_budget(SOON)) for each in (one, other)]


async def test_nothing_is_left_of_a_subscription_that_ended_in_any_way() -> None:
    subscriptions = Subscriptions()

    async def wait_for_ever() -> None:
        with subscriptions.subscribe(READY, OTHER, READY) as wakeup:
            await wakeup.wait(Budget.for_stream(incoming=None))

    with pytest.raises(ZeroDivisionError), subscriptions.subscribe(READY):
        raise ZeroDivisionError
    tasks = [asyncio.create_task(wait_for_ever()) for _ in range(100)]
    await eventually(lambda: len(subscriptions) == 2)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert 0 == len(subscriptions)


async def test_a_process_without_wakeups_polls() -> None:
    silent(READY)
    with Subscriptions().subscribe(READY) as wakeup:
        assert [False, False] == [await wakeup.wait(a_budget(SOON)) for _ in range(2)]
