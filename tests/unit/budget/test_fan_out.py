import asyncio
from collections.abc import Awaitable, Callable

import pytest

from budget.cancel import CancelWatch
from budget.core import Budget
from budget.errors import BudgetExhausted, SpuriousCancel
from budget.fan_out import Answered, Branch, Failed, Unfinished, fan_out

Call = Callable[[Budget], Awaitable[str]]


def a_request(seconds: float = 2.0) -> Budget:
    return Budget.root(incoming=seconds, default=None, cap=None)


def says(value: str) -> Call:
    async def call(_: Budget) -> str:
        await asyncio.sleep(0)
        return value

    return call


def raises(error: BaseException) -> Call:
    async def call(_: Budget) -> str:
        await asyncio.sleep(0)
        raise error

    return call


class Hangs:
    """A call that never ends by itself and notes that it was stopped, after some cleaning up."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cleaned_up = False

    async def __call__(self, _: Budget) -> str:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            self.cleaned_up = True
        return ""


async def test_all_answers_come_back_under_their_names_in_order() -> None:
    branches = {name: Branch(call=says(name)) for name in ("c", "a", "b")}
    parts = await fan_out(branches, budget=a_request())
    assert list(parts.items()) == [(name, Answered(name)) for name in ("c", "a", "b")]


async def test_branches_run_side_by_side() -> None:
    met = asyncio.Barrier(16)

    async def meet(_: Budget) -> str:
        await met.wait()
        return "met"

    parts = await fan_out({n: Branch(call=meet) for n in range(16)}, budget=a_request())
    assert set(parts.values()) == {Answered("met")}


async def test_an_optional_failure_stays_where_it_happened() -> None:
    error = KeyError("price")
    parts = await fan_out(
        {"good": Branch(call=says("1"), required=True), "bad": Branch(call=raises(error))},
        budget=a_request(),
    )
    assert parts == {"good": Answered("1"), "bad": Failed(error)}


async def test_the_first_required_failure_ends_all_others_and_waits_for_them() -> None:
    straggler = Hangs()
    error = KeyError("price")
    with pytest.raises(KeyError) as caught:
        await fan_out(
            {
                "slow": Branch(call=straggler),
                "bad": Branch(call=raises(error), required=True),
                "also bad": Branch(call=raises(ValueError()), required=True),
            },
            budget=a_request(),
        )
    assert caught.value is error
    assert not CancelWatch.here().task.cancelling(), "the caller was never asked to stop"
    assert straggler.cleaned_up


async def test_stragglers_are_cancelled_at_once_not_at_the_deadline() -> None:
    budget = a_request()
    branches = {"slow": Branch(call=Hangs()), "bad": Branch(call=raises(KeyError()), required=True)}
    with pytest.raises(KeyError):
        await fan_out(branches, budget=budget)
    assert budget.remaining() > budget.initial / 2


async def test_at_the_deadline_there_is_what_there_is() -> None:
    straggler = Hangs()
    budget = a_request()
    parts = await fan_out(
        {"slow": Branch(call=straggler), "good": Branch(call=says("1"))}, budget=budget, limit=0.05
    )
    assert parts == {"slow": Unfinished(), "good": Answered("1")}
    assert straggler.cleaned_up


async def test_the_budgets_end_is_a_deadline_too_and_leaves_the_reserve() -> None:
    budget = a_request(0.08)
    parts = await fan_out({"slow": Branch(call=Hangs())}, budget=budget)
    assert parts == {"slow": Unfinished()}


async def test_a_required_straggler_exhausts_the_budget() -> None:
    with pytest.raises(BudgetExhausted):
        await fan_out({"slow": Branch(call=Hangs(), required=True)}, budget=a_request(), limit=0.02)


async def test_without_time_nothing_is_started() -> None:
    called = Hangs()
    parts = await fan_out({"never": Branch(call=called)}, budget=a_request(0.01))
    assert parts == {"never": Unfinished()}
    assert not called.started.is_set()


async def test_a_cancel_of_the_caller_ends_every_branch() -> None:
    branches = [Hangs(), Hangs()]
    task = asyncio.create_task(
        fan_out({n: Branch(call=branch) for n, branch in enumerate(branches)}, budget=a_request())
    )
    for branch in branches:
        await branch.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(branch.cleaned_up for branch in branches)


async def test_a_cancel_wins_over_a_required_failure_of_the_same_moment() -> None:
    fail = asyncio.Event()

    async def call(_: Budget) -> str:
        await fail.wait()
        raise KeyError

    task = asyncio.create_task(fan_out({"bad": Branch(call=call, required=True)}, budget=a_request()))
    for _ in range(3):
        await asyncio.sleep(0)
    fail.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancel_that_nobody_asked_for_is_a_failure_of_its_branch_alone() -> None:
    parts = await fan_out(
        {"odd": Branch(call=raises(asyncio.CancelledError())), "good": Branch(call=says("1"))},
        budget=a_request(),
    )
    assert parts["good"] == Answered("1")
    assert isinstance(parts["odd"], Failed)
    assert isinstance(parts["odd"].error, SpuriousCancel)


async def test_a_branch_spends_from_the_scopes_part_of_the_budget() -> None:
    async def left(child: Budget) -> float:
        return child.initial

    parts = await fan_out({"one": Branch(call=left)}, budget=a_request(), limit=0.5)
    assert parts == {"one": Answered(0.5)}
