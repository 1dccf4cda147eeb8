"""What operators see of leases that nobody took over, and of snapshots that hold vacuum back."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

from jobs_store.reaper_loop import ReaperLoop, ReaperPace, Round
from jobs_store.reaper_metrics import ReaperMetrics
from servicekit.lifecycle import Loops, background_loops
from tests.integration.store.locks import superuser
from tests.store import OVER, Store, policy_of
from tests.waiting import eventually

pytestmark = pytest.mark.every_postgres

OLDEST_LEASE = "hourglass.reaper.oldest_expired_lease"
SNAPSHOT_AGE = "hourglass.postgres.oldest_snapshot_age"
XMIN_AGE = "hourglass.postgres.oldest_xmin_age"
PACE = ReaperPace(interval=0.05, reconnect_wait=0.0)


@pytest.fixture
def reader() -> Iterator[InMemoryMetricReader]:
    """What is measured."""
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
    reader.meter = provider.get_meter("test")  # type: ignore[attr-defined]  # for the loop
    yield reader
    provider.shutdown()


def gauges(reader: InMemoryMetricReader) -> dict[str, float]:
    """The present values by name."""
    data = reader.get_metrics_data()
    metrics = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics] if data else []
    points = [(metric.name, point) for metric in metrics for point in metric.data.data_points]
    return {name: point.value for name, point in points if isinstance(point, NumberDataPoint)}


@asynccontextmanager
async def reaping(store: Store, reader: InMemoryMetricReader) -> AsyncIterator[Loops]:
    """A process that reaps and measures."""
    observe = ReaperMetrics(reader.meter).observe  # type: ignore[attr-defined]  # see the fixture
    loop = ReaperLoop(store.reaper, store.worker, policy_of, jitter=lambda _: 0.0, pace=PACE, observe=observe)
    async with background_loops(grace=5.0) as loops:
        loops.start("reap", loop.run)
        yield loops


@pytest.mark.scenario("L6")
async def test_a_lease_that_nobody_takes_over_is_a_gauge_that_grows(
    store: Store, reader: InMemoryMetricReader
) -> None:
    """While somebody else holds the row no reaper can move it; then the gauge falls back to nothing."""
    await store.tenant()
    run = await store.running(lease=OVER)
    async with reaping(store, reader):
        async with superuser(store) as connection, connection.transaction():
            await connection.execute("SELECT FROM hourglass.jobs WHERE id = $1 FOR UPDATE", run.job_id)
            first = await eventually(lambda: gauges(reader).get(OLDEST_LEASE, 0.0))
            assert first >= -OVER
            await eventually(lambda: gauges(reader)[OLDEST_LEASE] > first)
        await eventually(lambda: gauges(reader)[OLDEST_LEASE] == 0.0)


@pytest.mark.scenario("D1")
async def test_a_snapshot_that_stays_open_is_a_gauge_that_grows(
    store: Store, reader: InMemoryMetricReader
) -> None:
    """In seconds and in transactions, though its session belongs to somebody else."""
    await store.tenant()
    async with reaping(store, reader):
        holder = await asyncpg.connect(store.database.owner)
        try:
            await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
            for _ in range(20):
                await store.create()
            await eventually(lambda: gauges(reader).get(XMIN_AGE, 0) >= 20)
            first = gauges(reader)[SNAPSHOT_AGE]
            await eventually(lambda: gauges(reader)[SNAPSHOT_AGE] > max(first, 0.2))
        finally:
            await holder.close()
        await eventually(lambda: gauges(reader)[XMIN_AGE] < 20)


def test_a_round_that_nobody_followed_up_ages_out(reader: InMemoryMetricReader) -> None:
    """While the database is away there are no rounds: the last figures would look like good ones."""
    now = [0.0]
    shown = ReaperMetrics(reader.meter, clock=lambda: now[0], stale=60.0)  # type: ignore[attr-defined]
    shown.observe(Round(took=0.1, oldest_lease=3.0))
    now[0] = 60.0
    assert 3.0 == gauges(reader)[OLDEST_LEASE]
    now[0] = 60.1
    assert OLDEST_LEASE not in gauges(reader)


async def test_a_round_that_broke_off_shows_nothing(store: Store, reader: InMemoryMetricReader) -> None:
    """No figure is better than the last good one, which would hide that nobody looks any more."""
    async with reaping(store, reader):
        await eventually(lambda: OLDEST_LEASE in gauges(reader))
        async with superuser(store) as connection:
            await connection.execute("REVOKE SELECT ON hourglass.jobs FROM hourglass_worker")
            await eventually(lambda: OLDEST_LEASE not in gauges(reader))
            await connection.execute("GRANT SELECT ON hourglass.jobs TO hourglass_worker")
        await eventually(lambda: OLDEST_LEASE in gauges(reader))
