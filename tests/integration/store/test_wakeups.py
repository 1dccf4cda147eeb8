"""Wake-ups over a real PostgreSQL, well and ill."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from budget.core import Budget
from budget.policy import Policy
from budget.postgres import Database, DatabaseLimits
from jobs_store.identifiers import TenantId, new_job_id
from jobs_store.wakeups import (
    Backoff,
    Channel,
    Listener,
    ListenerLimits,
    Notifier,
    NotifierLimits,
    Signal,
    Subscriptions,
    Wakeup,
    cancel_asked,
    job_changed,
    jobs_ready,
)
from servicekit.lifecycle import Loops, background_loops
from tests.chaos_proxy import ChaosProxy
from tests.postgres import TestDatabase
from tests.proxied import proxy_to, through
from tests.waiting import eventually

pytestmark = pytest.mark.every_postgres

GRACE = 5.0
LONG = 10.0
READY = jobs_ready("simulated/fast")
BACKOFF = Backoff(jitter=lambda most: most, first=0.02, longest=0.05)
LIMITS = ListenerLimits(connect=2.0)
WATCHFUL = ListenerLimits(connect=0.3, heartbeat_interval=0.2, heartbeat=0.2)
LISTENING = "SELECT pid FROM pg_stat_activity WHERE application_name = 'listener' AND datname = $1"

Query = Callable[..., Awaitable[list[asyncpg.Record]]]
OpenNotifier = Callable[..., Awaitable[Notifier]]


def policy_of(method: str) -> Policy:
    return Policy(dependency="postgres", method=method, limit=LONG)


def a_budget(seconds: float = LONG) -> Budget:
    return Budget.for_work(seconds)


def some(number: int) -> list[Signal]:
    return [job_changed(TenantId("acme"), new_job_id()) for _ in range(number)]


@pytest.fixture
async def loops() -> AsyncIterator[Loops]:
    """Background loops as in a service; one that crashes fails the test."""
    async with background_loops(grace=GRACE) as running:
        yield running


@pytest.fixture
async def proxy(database: TestDatabase) -> AsyncIterator[ChaosProxy]:
    async with proxy_to(database.owner) as running:
        yield running


@pytest.fixture
async def query(database: TestDatabase) -> AsyncIterator[Query]:
    """A session of the operator's, beside everything that is tested."""
    connection = await asyncpg.connect(database.owner)
    yield connection.fetch
    await connection.close()


@pytest.fixture
def subscriptions() -> Subscriptions:
    return Subscriptions()


def listener_of(dsn: str, subscriptions: Subscriptions, limits: ListenerLimits = LIMITS) -> Listener:
    return Listener(dsn, subscriptions, application_name="listener", backoff=BACKOFF, limits=limits)


@pytest.fixture
async def listener(database: TestDatabase, loops: Loops, subscriptions: Subscriptions) -> Listener:
    """A listener that listens."""
    listener = listener_of(database.request, subscriptions)
    loops.start("listener", listener.run)
    await eventually(lambda: listener.listening)
    return listener


@pytest.fixture
async def open_notifier(database: TestDatabase, loops: Loops) -> AsyncIterator[OpenNotifier]:
    """Opens notifiers with a connection of their own, and runs them."""
    opened: list[Database] = []

    async def notifier(limits: NotifierLimits | None = None, *, dsn: str = "") -> Notifier:
        connection = await Database.open(
            dsn or database.worker,
            budget=a_budget(),
            size=1,
            application_name="notifier",
            limits=DatabaseLimits(connect=0.2),
        )
        opened.append(connection)
        made = Notifier(connection, policy_of, backoff=BACKOFF, limits=limits)
        loops.start("notifier", made.run)
        return made

    yield notifier
    await loops.stop(GRACE)
    for connection in opened:
        await connection.close(a_budget())


async def end_listening_sessions(query: Query, database: TestDatabase) -> int:
    ended = await query(f"SELECT pg_terminate_backend(pid) FROM ({LISTENING}) AS listening", database.name)
    return len(ended)


async def time_to_wake(notifier: Notifier, wakeup: Wakeup) -> float:
    began = time.perf_counter()
    notifier.notify(READY)
    assert await wakeup.wait(a_budget())
    return time.perf_counter() - began


async def test_a_notification_reaches_who_waits_for_it(
    listener: Listener, subscriptions: Subscriptions, open_notifier: OpenNotifier
) -> None:
    notifier = await open_notifier(NotifierLimits(spacing=0.0001))
    with subscriptions.subscribe(READY) as wakeup:
        took = sorted([await time_to_wake(notifier, wakeup) for _ in range(200)])
    p50, p99 = statistics.median(took) * 1000, took[197] * 1000
    print(f"notify to wake: p50 {p50:.2f} ms, p99 {p99:.2f} ms")  # noqa: T201 - for whoever compares


async def test_every_kind_of_signal_arrives_as_it_was_sent(
    listener: Listener, subscriptions: Subscriptions, open_notifier: OpenNotifier
) -> None:
    notifier = await open_notifier()
    tenant, job_id = TenantId("acme"), new_job_id()
    signals = [jobs_ready('a lane/it\'s "odd" é'), job_changed(tenant, job_id), cancel_asked(tenant, job_id)]
    assert set(Channel) == {signal.channel for signal in signals}
    for signal in signals:
        with subscriptions.subscribe(signal) as wakeup:
            notifier.notify(signal)
            assert await wakeup.wait(a_budget()), signal


async def test_a_burst_takes_few_statements(listener: Listener, open_notifier: OpenNotifier) -> None:
    notifier = await open_notifier(NotifierLimits(spacing=0.2))
    for signal in some(100):
        notifier.notify(signal)
    await eventually(lambda: listener.heard == 100 and notifier.sent == 100)
    assert (1, 100, 0) == (notifier.statements, notifier.sent, notifier.dropped)


async def test_the_first_signal_goes_at_once_and_the_rest_together(
    listener: Listener, open_notifier: OpenNotifier
) -> None:
    notifier = await open_notifier(NotifierLimits(spacing=0.3))
    notifier.notify(READY)
    began = time.perf_counter()
    await eventually(lambda: listener.heard == 1)
    assert time.perf_counter() - began < 0.3, "the first one waited for others"
    for signal in some(50):
        notifier.notify(signal)
    await eventually(lambda: listener.heard == 51)
    assert 2 == notifier.statements


async def test_repeats_are_sent_once(listener: Listener, open_notifier: OpenNotifier) -> None:
    notifier = await open_notifier(NotifierLimits(spacing=0.2))
    (signal,) = some(1)
    for _ in range(1000):
        notifier.notify(signal)
    await eventually(lambda: listener.heard == 1 and notifier.sent == 1)
    assert 1 == notifier.statements


async def test_a_steady_stream_of_signals_keeps_the_distance_between_statements(
    listener: Listener, open_notifier: OpenNotifier
) -> None:
    notifier = await open_notifier(NotifierLimits(spacing=0.05))
    began = time.perf_counter()
    signals = some(200)
    for signal in signals:
        notifier.notify(signal)
        await asyncio.sleep(0.001)
    await eventually(lambda: listener.heard == len(signals))
    assert notifier.statements <= 1 + (time.perf_counter() - began) / 0.05


async def test_what_waits_is_bounded_and_what_is_too_much_is_counted(open_notifier: OpenNotifier) -> None:
    notifier = await open_notifier(NotifierLimits(pending=10))
    for signal in [*some(10), READY]:
        notifier.notify(signal)
    await eventually(lambda: notifier.sent == 10)
    assert 1 == notifier.dropped


async def test_what_waits_is_still_sent_when_the_process_stops(
    listener: Listener, open_notifier: OpenNotifier, loops: Loops
) -> None:
    notifier = await open_notifier(NotifierLimits(spacing=3600.0))
    notifier.notify(READY)
    await eventually(lambda: listener.heard == 1)
    for signal in some(3):
        notifier.notify(signal)
    await loops.stop(GRACE)
    assert 4 == notifier.sent


async def test_one_session_listens_for_the_whole_process(
    listener: Listener, subscriptions: Subscriptions, query: Query, database: TestDatabase
) -> None:
    signals = some(50)
    with subscriptions.subscribe(*signals), subscriptions.subscribe(*signals):
        assert 1 == len(await query(LISTENING, database.name))


async def test_a_listener_that_stops_leaves_no_session(
    listener: Listener, loops: Loops, query: Query, database: TestDatabase
) -> None:
    async def gone() -> bool:
        return not await query(LISTENING, database.name)

    await loops.stop(GRACE)
    assert not listener.listening
    await eventually(gone)


async def test_a_listener_whose_session_is_ended_listens_again_and_has_everyone_look(
    listener: Listener,
    subscriptions: Subscriptions,
    open_notifier: OpenNotifier,
    query: Query,
    database: TestDatabase,
) -> None:
    notifier = await open_notifier()
    with subscriptions.subscribe(READY) as ready, subscriptions.subscribe(*some(1)) as changed:
        assert 1 == await end_listening_sessions(query, database)
        assert [True, True] == [await each.wait(a_budget()) for each in (ready, changed)], "no catch-up"
        assert (2, 0) == (listener.connects, listener.heard)
        notifier.notify(READY)
        assert await ready.wait(a_budget()), "it does not listen again"
        assert not await changed.wait(a_budget(0.02))


async def test_a_listener_waits_longer_after_each_failure_and_forgets_them_once_it_listens(
    loops: Loops, subscriptions: Subscriptions, proxy: ChaosProxy, database: TestDatabase
) -> None:
    pauses: list[float] = []

    def no_pause(most: float) -> float:
        pauses.append(most)
        return 0.0

    backoff = Backoff(jitter=no_pause, first=1.0, longest=4.0)
    limits = ListenerLimits(connect=0.02)
    dsn = through(proxy, database.request)
    listener = Listener(dsn, subscriptions, application_name="listener", backoff=backoff, limits=limits)
    proxy.freeze()
    loops.start("listener", listener.run)
    await eventually(lambda: len(pauses) >= 4)
    proxy.flow()
    await eventually(lambda: listener.listening)
    failed = len(pauses)
    proxy.sever()
    await eventually(lambda: len(pauses) > failed)
    assert [1.0, 2.0, 4.0, 4.0] == pauses[:4]
    assert 1.0 == pauses[failed]


async def test_a_listener_that_cannot_connect_at_first_begins_when_it_can(
    loops: Loops, subscriptions: Subscriptions, proxy: ChaosProxy, database: TestDatabase
) -> None:
    proxy.black_hole = True
    listener = listener_of(through(proxy, database.request), subscriptions, WATCHFUL)
    loops.start("listener", listener.run)
    with subscriptions.subscribe(READY) as wakeup:
        await eventually(lambda: proxy.accepted >= 2)
        assert not listener.listening
        proxy.black_hole = False
        assert await wakeup.wait(a_budget())
    assert listener.listening


@pytest.mark.scenario("O2")
async def test_a_connection_that_goes_silent_is_noticed_and_replaced(
    loops: Loops,
    subscriptions: Subscriptions,
    open_notifier: OpenNotifier,
    proxy: ChaosProxy,
    database: TestDatabase,
) -> None:
    listener = listener_of(through(proxy, database.request), subscriptions, WATCHFUL)
    loops.start("listener", listener.run)
    notifier = await open_notifier()
    with subscriptions.subscribe(READY) as wakeup:
        assert await wakeup.wait(a_budget())
        proxy.freeze()
        notifier.notify(READY)
        await eventually(lambda: not listener.listening, within=0.4 + 0.4)
        assert (1, 0) == (listener.connects, listener.heard)
        proxy.flow()
        assert await wakeup.wait(a_budget()), "no catch-up"
        await eventually(lambda: listener.listening)
        notifier.notify(READY)
        assert await wakeup.wait(a_budget()), "it does not listen again"


async def test_a_quiet_but_healthy_connection_is_kept(
    loops: Loops, subscriptions: Subscriptions, proxy: ChaosProxy, database: TestDatabase
) -> None:
    limits = ListenerLimits(heartbeat_interval=0.01, heartbeat=5.0)
    listener = listener_of(through(proxy, database.request), subscriptions, limits)
    loops.start("listener", listener.run)
    with subscriptions.subscribe(READY) as wakeup:
        assert await wakeup.wait(a_budget())
        assert not await wakeup.wait(a_budget(0.2)), "a heartbeat is no signal"
    assert (True, 1, 1) == (listener.listening, listener.connects, proxy.accepted)


async def test_a_notifier_without_its_database_drops_and_counts_and_recovers(
    listener: Listener,
    subscriptions: Subscriptions,
    open_notifier: OpenNotifier,
    proxy: ChaosProxy,
    database: TestDatabase,
) -> None:
    limits = NotifierLimits(statement=0.2)
    notifier = await open_notifier(limits, dsn=through(proxy, database.worker))
    proxy.black_hole = True
    proxy.sever()
    signals = some(20)
    for signal in signals:
        notifier.notify(signal)
    await eventually(lambda: notifier.dropped == len(signals))
    assert (0, 0) == (notifier.sent, listener.heard)
    proxy.black_hole = False
    with subscriptions.subscribe(READY) as wakeup:
        woken = False
        for _ in range(100):
            notifier.notify(READY)
            woken = woken or await wakeup.wait(a_budget(0.1))
            if woken:
                break
    assert woken


async def test_a_notifier_in_an_outage_tries_ever_less_often(database: TestDatabase, loops: Loops) -> None:
    unconnected = Database(database.worker, size=1, application_name="notifier")
    notifier = Notifier(unconnected, policy_of, backoff=BACKOFF)
    loops.start("notifier", notifier.run)
    began = time.perf_counter()
    while time.perf_counter() - began < 0.5:
        notifier.notify(READY)
        await asyncio.sleep(0.001)
    assert 2 <= notifier.statements <= 0.5 / BACKOFF.longest + 3


async def test_a_signal_that_cannot_be_stored_costs_only_its_own_batch(
    listener: Listener, subscriptions: Subscriptions, open_notifier: OpenNotifier
) -> None:
    notifier = await open_notifier()
    notifier.notify(jobs_ready("x" * 10_000))
    await eventually(lambda: notifier.dropped == 1)
    with subscriptions.subscribe(READY) as wakeup:
        notifier.notify(READY)
        assert await wakeup.wait(a_budget())


async def test_a_listener_hears_only_the_channels_that_its_process_waits_for(
    database: TestDatabase, loops: Loops, subscriptions: Subscriptions, open_notifier: OpenNotifier
) -> None:
    """A worker has no use for the changes of every job of the fleet."""
    listener = Listener(
        database.request, subscriptions, [Channel.CANCELS], application_name="listener", backoff=BACKOFF
    )
    loops.start("listener", listener.run)
    await eventually(lambda: listener.listening)
    notifier = await open_notifier()
    cancel = cancel_asked(TenantId("acme"), new_job_id())
    with subscriptions.subscribe(cancel) as wakeup:
        notifier.notify(READY)
        notifier.notify(cancel)
        assert await wakeup.wait(a_budget())
    assert 1 == listener.heard
