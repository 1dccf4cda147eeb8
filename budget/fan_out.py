"""Several calls side by side in one structured scope: none outlives it, whatever happens."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from budget.cancel import CancelWatch
from budget.core import Budget
from budget.errors import BudgetExhausted, SpuriousCancel

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch(Generic[Value]):
    """One call of a fan-out. The first error of a `required` one ends the whole; others only end
    themselves."""

    call: Callable[[Budget], Awaitable[Value]]
    required: bool = False


@dataclass(frozen=True, slots=True)
class Answered(Generic[Value]):
    """The branch has this value."""

    value: Value


@dataclass(frozen=True, slots=True)
class Failed:
    """The branch raised this error."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Time was up before the branch had an answer; it was cancelled."""


Part = Answered[Value] | Failed | Unfinished


async def fan_out(
    branches: Mapping[Key, Branch[Value]], *, budget: Budget, limit: float = float("inf")
) -> dict[Key, Part[Value]]:
    """Runs all branches at once and returns what each came to, in their order, at the latest after `limit`
    seconds or when `budget` may be spent no longer: then with what there is.

    Raises the first error of a required branch, and BudgetExhausted when a required one is unfinished; the
    others are cancelled and awaited first. When the caller is cancelled, so are all branches.
    """
    scope = _Scope(branches, budget.child(limit))
    await scope.run()
    scope.raise_for_required()
    return {key: scope.parts.get(key, Unfinished()) for key in branches}


class _Scope(Generic[Key, Value]):
    def __init__(self, branches: Mapping[Key, Branch[Value]], child: Budget) -> None:
        self._branches = branches
        self._child = child
        self._tasks: list[asyncio.Task[None]] = []
        self.parts: dict[Key, Part[Value]] = {}

    async def run(self) -> None:
        remaining = self._child.remaining()
        if remaining <= 0:
            return
        timer = asyncio.timeout(None if self._child.unbounded else remaining)
        with suppress(TimeoutError):  # only the timer's: branches keep their errors as parts
            async with timer, asyncio.TaskGroup() as group:
                for key, branch in self._branches.items():
                    self._tasks.append(group.create_task(self._run(key, branch), name=f"fan-out {key}"))

    def raise_for_required(self) -> None:
        required = {key for key, branch in self._branches.items() if branch.required}
        for key, part in self.parts.items():  # in the order in which they ended
            if key in required and isinstance(part, Failed):
                raise part.error
        if required - self.parts.keys():
            raise BudgetExhausted

    async def _run(self, key: Key, branch: Branch[Value]) -> None:
        watch = CancelWatch.here()
        try:
            self.parts[key] = Answered(await branch.call(self._child))
        except asyncio.CancelledError:
            if watch.cancelled:
                raise
            self._fail(key, branch, SpuriousCancel())
        except Exception as error:  # noqa: BLE001 # kept as the branch's part, raised after the scope
            self._fail(key, branch, error)

    def _fail(self, key: Key, branch: Branch[Value], error: Exception) -> None:
        self.parts[key] = Failed(error)
        if branch.required:
            self._stop()

    def _stop(self) -> None:
        # Not by raising into the group: in Python 3.11 a group that waits already then leaves a cancel
        # counted in its parent task for good, and every CancelWatch around would take it for a real one.
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
