"""Telling a real cancel from a CancelledError that merely passes by."""

import asyncio
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelWatch:
    """Watches the running task: was it asked to stop since the watch began?

    A library may raise CancelledError because something that it awaited was cancelled; only `Task.cancelling`
    tells that the task itself was (Python's docs on it; grpc/grpc#29248 for what breaks without).
    """

    task: asyncio.Task[object]
    before: int

    @classmethod
    def here(cls) -> Self:
        """Starts to watch the running task."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a budget is spent inside a task")
        return cls(task=task, before=task.cancelling())

    @property
    def cancelled(self) -> bool:
        """True when somebody asked this task to stop and nobody took that back."""
        return self.task.cancelling() > self.before

    def raise_if_cancelled(self) -> None:
        """Raises the CancelledError that somebody swallowed."""
        if self.cancelled:
            raise asyncio.CancelledError
