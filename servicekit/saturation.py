"""How near a process is to its limits: pools, the event loop, what is in flight. Read when it is scraped.

Names of connections are those of OpenTelemetry's semantic conventions for database clients.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Meter, Observation

from budget.postgres import Database
from servicekit.drain import Drain
from servicekit.lifecycle import every

LAG_INTERVAL: Final = 0.25
"""Seconds between two looks at the event loop."""
_LAG_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_POOL: Final = "db.client.connection.pool.name"
_STATE: Final = "db.client.connection.state"

Show = Callable[[CallbackOptions], Iterable[Observation]]


def observe_databases(databases: Mapping[str, Database], meter: Meter | None = None) -> None:
    """Makes the instruments of these pools, by name."""
    meter = meter or metrics.get_meter("hourglass.databases")

    def of_each(value: Callable[[Database], float]) -> Show:
        return lambda _: (Observation(value(one), {_POOL: name}) for name, one in databases.items())

    def connections(_: CallbackOptions) -> Iterable[Observation]:
        for name, one in databases.items():
            yield Observation(one.in_use, {_POOL: name, _STATE: "used"})
            yield Observation(max(0, one.established - one.in_use), {_POOL: name, _STATE: "idle"})

    meter.create_observable_up_down_counter(
        "db.client.connection.count",
        [connections],
        unit="{connection}",
        description="Connections by state; one that is cleaned up after a cancel counts as used",
    )
    meter.create_observable_up_down_counter(
        "db.client.connection.max",
        [of_each(lambda one: one.size)],
        unit="{connection}",
        description="Connections that the pool may have",
    )
    meter.create_observable_up_down_counter(
        "db.client.connection.pending_requests",
        [of_each(lambda one: one.waiting)],
        unit="{request}",
        description="Callers that wait for a connection and can still use one",
    )
    meter.create_observable_counter(
        "hourglass.database.waited",
        [of_each(lambda one: one.waited)],
        unit="s",
        description="Time that callers waited for a connection, whatever came of it",
    )
    meter.create_observable_counter(
        "hourglass.database.waits",
        [of_each(lambda one: one.waits)],
        unit="{wait}",
        description="Callers that had to wait for a connection",
    )
    meter.create_observable_counter(
        "hourglass.database.interrupted",
        [of_each(lambda one: one.interrupted)],
        unit="{connection}",
        description="Connections that were dropped in mid-work: a cancel, a limit, an error",
    )
    meter.create_observable_counter(
        "hourglass.database.cut_off",
        [of_each(lambda one: one.cut_off)],
        unit="{query}",
        description="Queries that were cut off: their caller left, or their time was over",
    )
    meter.create_observable_counter(
        "hourglass.database.lost",
        [of_each(lambda one: one.lost)],
        unit="{connection}",
        description="Connections that have ended, by either side",
    )


def observe_requests(drain: Drain, meter: Meter) -> None:
    """Makes the instrument of what a server has in flight."""
    meter.create_observable_up_down_counter(
        "hourglass.server.in_flight",
        [lambda _: [Observation(drain.in_flight)]],
        unit="{request}",
        description="Requests in flight, streams included",
    )


class LoopWatch:
    """How late the event loop is, which is what every timer and every answer suffers, and how many tasks it
    has. A background loop of a process."""

    def __init__(self, meter: Meter | None = None) -> None:
        meter = meter or metrics.get_meter("hourglass.loop")
        self._tasks = 0
        self._lag = meter.create_histogram(
            "hourglass.loop.lag",
            unit="s",
            description="How much later than it was due the loop ran a timer",
            explicit_bucket_boundaries_advisory=_LAG_BUCKETS,
        )
        meter.create_observable_up_down_counter(
            "hourglass.loop.tasks",
            [lambda _: [Observation(self._tasks)]],
            unit="{task}",
            description="Tasks of the event loop",
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Looks until `stop` is set."""
        loop = asyncio.get_running_loop()
        due = loop.time()

        async def look() -> None:
            nonlocal due
            now = loop.time()
            self._lag.record(max(0.0, now - due))
            self._tasks = len(asyncio.all_tasks())
            due = now + LAG_INTERVAL

        await every(LAG_INTERVAL, look, stop)
