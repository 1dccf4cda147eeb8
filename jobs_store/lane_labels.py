"""Labels of metrics by lane, of which there are never more than so many."""

from typing import Final

MOST_LANES: Final = 200
OTHER: Final = "_OTHER"


class LaneLabels:
    """Provider and model of lanes. A catalog may price models by pattern, so callers could invent names: what
    is beyond the first `most` lanes of a process shares one label."""

    def __init__(self, most: int = MOST_LANES) -> None:
        self._most = most
        self._known: set[str] = set()

    def of(self, lane: str) -> dict[str, str]:
        """`provider` and `model`; a new dictionary that may be added to."""
        provider, _, model = self.named(lane).partition("/")
        return {"provider": provider, "model": model}

    def named(self, lane: str) -> str:
        """The lane, or the one label for all that are too many."""
        if lane not in self._known:
            if len(self._known) >= self._most:
                return f"{OTHER}/{OTHER}"
            self._known.add(lane)
        return lane
