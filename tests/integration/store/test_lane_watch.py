"""Depth and age of lanes: read on a timer, shown at a scrape, gone when nobody could read them again."""

from dataclasses import dataclass, field

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from budget.postgres import Database
from jobs_store.lane_watch import LaneWatch, LaneWatchPace
from tests.integration.servicekit.metrics import counted, points
from tests.integration.store.locks import superuser
from tests.store import LANE, Store, policy_of, time_enough

QUEUED = "hourglass.lane.queued"
AGE = "hourglass.lane.oldest_age"
CLOSED = "hourglass.lane.closed"


@dataclass(slots=True)
class Hands:
    """A clock that is moved by hand."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class Watched:
    """A watch, its clock, and what a scrape sees."""

    database: Database
    clock: Hands = field(default_factory=Hands)
    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)
    most: int = 200

    def watch(self) -> LaneWatch:
        """A watch over the database."""
        return LaneWatch(
            self.database,
            policy_of,
            jitter=lambda _: 0.0,
            pace=LaneWatchPace(most=self.most),
            clock=self.clock,
            meter=MeterProvider([self.reader], shutdown_on_exit=False).get_meter("test"),
        )


async def test_what_waits_runs_and_is_closed_is_shown_by_lane(store: Store) -> None:
    await store.tenant()
    await store.create()
    await store.create()
    await store.claim(1)
    at = Watched(store.worker)
    watch = at.watch()
    await watch.look()
    assert (1, 1) == (counted(at.reader, QUEUED), counted(at.reader, "hourglass.lane.running"))
    assert 0 <= counted(at.reader, AGE) < 60
    await store.runs.park_lane(LANE, duration=60.0, cause="RATE_LIMITED", budget=time_enough())
    await watch.look()
    assert 1 == counted(at.reader, CLOSED, state="PARKED")
    assert 0 == counted(at.reader, CLOSED, state="PAUSED")


async def test_figures_that_nobody_could_read_again_age_out(store: Store) -> None:
    at = Watched(store.worker)
    watch = at.watch()
    await watch.look()
    at.clock.now = 59.0
    assert list(points(at.reader, QUEUED))
    async with superuser(store) as connection:
        await connection.execute("REVOKE SELECT ON hourglass.lanes FROM hourglass_worker")
    await watch.look()
    assert list(points(at.reader, QUEUED)), "they are younger than a minute"
    at.clock.now = 61.0
    assert [] == list(points(at.reader, QUEUED))


async def test_without_a_database_there_is_no_figure_and_no_failure() -> None:
    at = Watched(Database("postgresql://nobody@127.0.0.1:1/none", size=1, application_name="t"))
    await at.watch().look()
    assert [] == list(points(at.reader, QUEUED))


@pytest.mark.parametrize("most", [1, 3])
async def test_no_more_lanes_are_shown_than_may_be(store: Store, most: int) -> None:
    await store.runs.register_lanes([f"p/m{number}" for number in range(5)], budget=time_enough())
    at = Watched(store.worker, most=most)
    await at.watch().look()
    assert most == len(list(points(at.reader, QUEUED)))
