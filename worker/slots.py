"""How many runs a worker does at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Slots:
    """Counts slots; `on_free` is called whenever one comes free."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.free = count
        self.on_free: Callable[[], None] = _nothing

    def take(self, taken: int) -> None:
        """Uses free slots. ValueError when there are not so many: a claim asked for too much."""
        if taken > self.free:
            raise ValueError(f"{taken} slots are wanted and {self.free} are free")
        self.free -= taken

    def give_back(self) -> None:
        """Frees one slot."""
        if self.free >= self.count:
            raise ValueError("a slot came back that was not taken")
        self.free += 1
        self.on_free()


def _nothing() -> None:
    """Nobody waits yet."""
