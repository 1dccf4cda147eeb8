"""Telling a real cancel from a CancelledError that merely passes by."""

import asyncio
from typing import Any, Self


class CancelWatch:
    """Watches the running task: was it asked to stop since the watch began?

    A library may raise CancelledError because something that it awaited was cancelled; only `Task.cancelling`
    tells that the task itself was (Python's docs on it; grpc/grpc#29248 for what breaks without).
    """

    __slots__ = ("before", "task")

    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self.task = task
        self.before = task.cancelling()

    @classmethod
    def here(cls) -> Self:
        """Starts to watch the running task."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a budget is spent inside a task")
        return cls(task)

    @property
    def cancelled(self) -> bool:
        """True when somebody asked this task to stop and nobody took that back."""
        return self.task.cancelling() > self.before

    def raise_if_cancelled(self) -> None:
        """Raises the CancelledError that somebody swallowed."""
        if self.cancelled:
            raise asyncio.CancelledError
