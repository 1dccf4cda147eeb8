"""Which lanes a worker claims from: those of the models that its routes name, and those found waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from budget.core import Budget
    from jobs_store.runs import RunStore
    from worker.providers.routes import ProviderRoute, Routes

_PATTERN: Final = frozenset("*?[")


class Lanes:
    """Grows as lanes come up that a pattern matches; never shrinks while the process lives."""

    def __init__(self, routes: Routes, store: RunStore) -> None:
        self.served: tuple[str, ...] = named_lanes(routes)
        self._routes = routes
        self._store = store
        self._registered: frozenset[str] = frozenset()

    async def discover(self, *, budget: Budget) -> bool:
        """Looks for lanes in which jobs wait, and makes all of ours known; True when there are new ones."""
        waiting = await self._store.waiting_lanes(budget=budget)
        new = [lane for lane in waiting if lane not in self.served and serves(self._routes, lane)]
        self.served = (*self.served, *new)
        missing = set(self.served) - self._registered
        if missing:
            await self._store.register_lanes(sorted(missing), budget=budget)
            self._registered = frozenset(self.served)
        return bool(new)


def named_lanes(routes: Routes) -> tuple[str, ...]:
    """The lanes of models that routes name without a pattern."""
    return _in_order(
        route.lane(model) for route in routes.routes for model in route.models if not _PATTERN & set(model)
    )


def serves(routes: Routes, lane: str) -> bool:
    """Whether one of the routes has this lane and takes its model."""
    provider, _, model = lane.partition("/")
    return any(route.name == provider and _takes(route, model) for route in routes.routes)


def _takes(route: ProviderRoute, model: str) -> bool:
    return route.serves(model) or route.serves(f"{route.name}/{model}")


def _in_order(lanes: Iterable[str]) -> tuple[str, ...]:
    unique: Sequence[str] = list(dict.fromkeys(lanes))
    return tuple(unique)
