"""The wiring of a worker process."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from budget.core import Budget
from budget.postgres import Database
from jobs_store.decisions import RetryTiming
from jobs_store.lane_watch import LaneWatch
from jobs_store.look_ups import LookUpStore
from jobs_store.pacing import Backoff
from jobs_store.reaper import Reaper
from jobs_store.reaper_loop import ReaperLoop, ReaperPace
from jobs_store.retention import Retention, RetentionTerms
from jobs_store.retention_loop import RetentionLoop, RetentionPace
from jobs_store.runs import RunStore
from jobs_store.signals import Channel, silent
from jobs_store.wakeups import Listener, Notifier, Subscriptions
from servicekit.call import development_principal
from servicekit.health import ReadinessLoop
from servicekit.lifecycle import background_loops
from servicekit.request import Terms, trusted
from servicekit.saturation import LoopWatch, observe_databases
from servicekit.server import Server
from servicekit.telemetry import start_telemetry
from worker.active import ActiveRuns
from worker.claimer import Claimer, ClaimTerms
from worker.connections import Connections, until_either
from worker.event_log import LogLimits
from worker.finisher import Finisher, FinishRules
from worker.flusher import Flusher, FlushPace
from worker.generating import Generating
from worker.group_commit import GroupCommit
from worker.lane_alarm import LaneAlarm
from worker.lanes import Lanes
from worker.lease import Leases
from worker.look_up import HeldLookUps, LookUpPace, RunLookUp
from worker.metrics import RunMetrics, observe_worker
from worker.policies import POSTGRES
from worker.providers.openai_compatible import OpenAICompatible
from worker.providers.routes import Routes
from worker.renewal import RenewalPace, RenewalThread
from worker.rpc import add_to, methods
from worker.run import Providers, Runner
from worker.service import WorkerService, WorkerState
from worker.slots import Slots
from worker.starter import Starter
from worker.supervisor import RunKit, Supervisor
from worker.tracing import RunTraces

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from jobs_store.creation import PolicyOf
    from jobs_store.signals import Notify
    from servicekit.lifecycle import Loop, Loops
    from servicekit.telemetry import TelemetrySettings
    from worker.providers.protocol import Provider
    from worker.providers.routes import ProviderRoute
    from worker.settings import WorkerSettings

TELEMETRY_STOP_LIMIT: Final = 2.0
"""Seconds for sending out the last spans."""
PROVIDERS_STOP_LIMIT: Final = 5.0
LOOPS_STOP_LIMIT: Final = 15.0
"""Seconds for the last statements of background loops."""
REAPER_PAGE: Final = 200


@dataclass(slots=True)
class DrainOrder:
    """What somebody asked for over the network: to end, with this grace."""

    stopping: asyncio.Event
    grace: float | None = None

    def __call__(self, grace: float | None) -> None:
        """Begins the end."""
        self.grace = grace
        self.stopping.set()

    def within(self, own: float) -> float:
        """The grace: what was asked for, and never more than our own."""
        return own if self.grace is None else min(own, self.grace)


async def run(settings: WorkerSettings, observed: TelemetrySettings, stopping: asyncio.Event) -> None:
    """Runs jobs until `stopping` is set, then drains."""
    telemetry = start_telemetry(
        "hourglass-worker", version("hourglass"), observed, metrics_listen=settings.metrics_listen
    )
    provider_of = partial(OpenAICompatible, capture_content=observed.captures_content)
    try:
        async with working(settings, stopping, provider_of=provider_of):
            await stopping.wait()
    finally:
        await telemetry.stop(Budget.for_work(TELEMETRY_STOP_LIMIT))


@asynccontextmanager
async def working(
    settings: WorkerSettings,
    stopping: asyncio.Event,
    *,
    provider_of: Callable[[ProviderRoute], Provider] = OpenAICompatible,
) -> AsyncIterator[Worker]:
    """A worker during its body, drained at the end. `stopping` is set when a Drain call asks for the end.

    provider_of: makes the provider of a route.
    """
    worker = Worker(settings, DrainOrder(stopping), provider_of)
    try:
        async with (
            background_loops(grace=LOOPS_STOP_LIMIT) as loops,
            worker.renewal.running() as renewal_ended,
        ):
            worker.start_loops(loops, renewal_ended)
            async with worker.server.serving(worker.runs_on()):
                async with background_loops(grace=LOOPS_STOP_LIMIT) as claims:
                    worker.start_claims(claims)
                    yield worker
                await worker.drain()
    finally:
        await worker.close()


class Worker:
    """The parts of one worker process."""

    def __init__(
        self,
        settings: WorkerSettings,
        drain_order: DrainOrder,
        provider_of: Callable[[ProviderRoute], Provider],
    ) -> None:
        self._settings = settings
        self._drain_order = drain_order
        self._provider_of = provider_of
        self._policy_of: PolicyOf = settings.policies.of_dependency(POSTGRES)
        self._jitter = random.SystemRandom().random
        self._backoff = Backoff(jitter=self._jittered)
        self._timing = RetryTiming(
            backoff_base=settings.backoff_base,
            backoff_cap=settings.backoff_cap,
            platform_park=settings.platform_park,
            hold_timeout=settings.hold_timeout,
        )
        self._look_up_pace = LookUpPace(
            interval=settings.look_up_interval, patience=settings.look_up_patience
        )
        self._build_store()
        self._build_runs()
        self._build_server()

    @property
    def address(self) -> str:
        """Where it listens."""
        return self.server.address

    @property
    def free_slots(self) -> int:
        """Runs that it could begin now."""
        return self._slots.free

    @property
    def draining(self) -> bool:
        """Whether it gives back what was not sent."""
        return self._supervisor.draining.is_set()

    @property
    def listening(self) -> bool:
        """Whether wake-ups reach it now."""
        return self._listener.listening

    def runs_on(self) -> dict[str, str]:
        """For the start-up line."""
        settings = self._settings
        return {
            "worker": settings.name,
            "slots": str(settings.slots),
            "routes": ", ".join(route.name for route in settings.routes),
            "database": settings.redacted()["database_url"],
        }

    def start_loops(self, loops: Loops, renewal_ended: asyncio.Future[None]) -> None:
        """What has to run as long as a run does."""
        loops.start("loop watch", LoopWatch().run)
        loops.start("certificates", self.server.certificates.run)
        if self._gate is not None:
            self._gate.start(loops)
        loops.start("connections", self._connections.run)
        loops.start("renewal", _until_stopped(renewal_ended))
        for commit in (self._starts, self._appends, self._finishes, self._returns):
            loops.start(commit.name, commit.run)
        loops.start("flusher", self._flusher.run)
        loops.start("runs", self._supervisor.run)
        loops.start("reaper", self._connections.first(self._reaper.run))
        loops.start("look-ups", self._connections.first(self._held_look_ups().run))
        if self._settings.wake_ups:
            loops.start("notifier", self._notifier.run)
            loops.start("listener", self._listener.run)

    def start_claims(self, loops: Loops) -> None:
        """What stops first: readiness, and claims under the address that the server has now."""
        readiness = ReadinessLoop(self.server.health, self._connections.answers)
        loops.start("readiness", self._connections.first(readiness.run))
        loops.start("claimer", self._connections.first(self._claimer().run))

    async def drain(self) -> None:
        """Ends the runs; progress is streamed until the last one."""
        self._service.note_drain()
        self.server.health.set_ready(False)
        grace = self._drain_order.within(self._settings.drain_grace)
        await self._supervisor.drain(grace=grace, ending=self._settings.ending_grace)

    async def close(self) -> None:
        """Closes connections to Postgres and to providers."""
        budget = Budget.for_work(PROVIDERS_STOP_LIMIT)
        await asyncio.gather(
            self._connections.close(),
            *(provider.close(budget=budget) for provider in self._providers.by_name.values()),
        )

    def _build_store(self) -> None:
        settings, name = self._settings, self._settings.name
        direct = settings.direct_database_url or settings.database_url
        cached = settings.statement_cache_size
        database = Database(
            settings.database_url,
            size=settings.database_size,
            application_name=f"worker {name}",
            statement_cache_size=cached,
        )
        notices = Database(direct, size=1, application_name=f"notifier {name}")
        reaping = Database(
            settings.database_url, size=2, application_name=f"reaper {name}", statement_cache_size=cached
        )
        databases = {"jobs": database, "reaper": reaping}
        if settings.wake_ups:
            databases["wakeups"] = notices
        observe_databases(databases)
        self._connections = Connections(list(databases.values()), self._policy_of, backoff=self._backoff)
        self._store = RunStore(database, self._policy_of)
        self._look_ups = LookUpStore(database, self._policy_of)
        self._subscriptions = Subscriptions()
        self._notifier = Notifier(notices, self._policy_of, backoff=self._backoff)
        self._notify: Notify = self._notifier.notify if settings.wake_ups else silent
        self._listener = Listener(
            direct,
            self._subscriptions,
            (Channel.JOBS_READY, Channel.CANCELS),
            application_name=f"listener {name}",
            backoff=self._backoff,
        )
        self._reaper = self._build_reaper(reaping)

    def _build_reaper(self, database: Database) -> ReaperLoop:
        settings = self._settings
        reaper = Reaper(
            database,
            self._policy_of,
            timing=self._timing,
            jitter=self._jittered,
            page_size=REAPER_PAGE,
            call_grace=settings.call_grace,
        )
        pace = ReaperPace(interval=settings.reap_interval, reconnect_wait=settings.reap_wait)
        terms = RetentionTerms(lifetimes=settings.retention, interval=settings.retention_interval)
        retention = RetentionLoop(
            Retention(database, self._policy_of, terms),
            jitter=self._jittered,
            pace=RetentionPace.for_passes(terms.interval),
        )
        lanes, jitter = LaneWatch(database, self._policy_of, jitter=self._jittered), self._jittered
        return ReaperLoop(
            reaper, database, self._policy_of, jitter=jitter, pace=pace, retention=retention, lanes=lanes
        )

    def _build_runs(self) -> None:
        settings, store = self._settings, self._store
        self._metrics = RunMetrics()
        self._active, self._slots, self._leases = ActiveRuns(), Slots(settings.slots), Leases()
        self._traces = RunTraces()
        self._starts = GroupCommit("start", store.start, limit=self._limit("start_attempts"))
        self._appends = GroupCommit("append", store.append, limit=self._limit("append_events"))
        self._finishes = GroupCommit("finish", store.finish, limit=self._limit("finish_jobs"))
        self._returns = GroupCommit("requeue", store.requeue, limit=self._limit("requeue_jobs"))
        self._flusher = Flusher(
            self._appends, FlushPace(interval=settings.flush_interval, size=settings.flush_size)
        )
        routes = Routes(routes=settings.routes)
        self._lanes = Lanes(routes, store)
        self._providers = Providers(
            routes=routes, by_name={route.name: self._provider_of(route) for route in routes.routes}
        )
        self.renewal = self._build_renewal()
        self._supervisor = Supervisor(
            self._build_runner(),
            active=self._active,
            slots=self._slots,
            leases=self._leases,
            flusher=self._flusher,
            subscriptions=self._subscriptions,
            notify=self._notify,
            metrics=self._metrics,
            kit=RunKit(
                worker_id=settings.name,
                log_limits=LogLimits(events=settings.log_events, size=settings.log_size),
                coalesce=settings.coalesce,
            ),
        )

    def _held_look_ups(self) -> HeldLookUps:
        return HeldLookUps(
            self._look_ups,
            list(self._providers.by_name.values()),
            self._finishes,
            notify=self._notify,
            metrics=self._metrics,
            timing=self._timing,
            jitter=self._jittered,
            pace=self._look_up_pace,
        )

    def _build_renewal(self) -> RenewalThread:
        settings = self._settings
        pace = RenewalPace(
            lease=settings.lease,
            interval=settings.renewal_interval,
            retry=settings.renewal_retry,
            limit=self._limit("renew_leases") + 1.0,
        )
        database = Database(
            settings.database_url,
            size=1,
            application_name=f"renewal {settings.name}",
            statement_cache_size=settings.statement_cache_size,
        )
        return RenewalThread(database, self._leases, self._policy_of, pace)

    def _build_runner(self) -> Runner:
        settings = self._settings
        rules = FinishRules(
            timing=self._timing,
            jitter=self._jittered,
            backoff=self._backoff,
            patience=settings.ending_patience,
        )
        finisher = Finisher(
            self._store,
            self._finishes,
            self._returns,
            flusher=self._flusher,
            notify=self._notify,
            metrics=self._metrics,
            alarm=LaneAlarm(),
            rules=rules,
        )
        starter = Starter(starts=self._starts, backoff=self._backoff, cut_off=settings.cut_off)
        return Runner(
            providers=self._providers,
            starter=starter,
            finisher=finisher,
            traces=self._traces,
            look_up=RunLookUp(self._look_up_pace),
            cut_off=settings.cut_off,
        )

    def _build_server(self) -> None:
        settings = self._settings
        self._service = WorkerService(
            worker_id=settings.name,
            active=self._active,
            slots=self._slots,
            lanes=self._lanes,
            leases=self._leases,
            cut_off=settings.cut_off,
            heartbeat=settings.heartbeat,
            begin_drain=self._drain_order,
        )
        self._gate = settings.gate(services_only=True)
        terms = Terms(
            authenticate=self._gate or development_principal,
            ledger_for=trusted(settings.ledger_tenants),
            admission=settings.admission_control(),
        )
        self.server = Server(settings, methods(stream_age=settings.max_stream_age), terms)
        add_to(self.server, self._service, self._build_generating(), write_limit=settings.write_limit)

    def _build_generating(self) -> Generating:
        slots = Slots(self._settings.generate_slots)
        observe_worker({"job": self._slots, "call": slots}, self._leases.since_proof)
        return Generating(
            self._providers,
            slots,
            draining=lambda: self._service.status().state is WorkerState.DRAINING,
        )

    def _claimer(self) -> Claimer:
        settings = self._settings
        terms = ClaimTerms(
            worker_id=settings.name,
            worker_address=settings.advertised_address or self.server.address,
            lease=settings.lease,
            poll=settings.poll_interval,
            limit=self._limit("claim_jobs"),
            cut_off=settings.cut_off,
            tenants=settings.claim_tenants,
            jitter=self._jittered,
        )
        return Claimer(
            self._store,
            self._supervisor,
            lanes=self._lanes,
            slots=self._slots,
            leases=self._leases,
            subscriptions=self._subscriptions,
            traces=self._traces,
            terms=terms,
        )

    def _limit(self, statement: str) -> float:
        return self._policy_of(statement).limit

    def _jittered(self, most: float) -> float:
        return most * self._jitter()


def _until_stopped(renewal_ended: asyncio.Future[None]) -> Loop:
    """A loop that ends with an error when the thread does."""

    async def watch(stop: asyncio.Event) -> None:
        ended = asyncio.Event()
        renewal_ended.add_done_callback(lambda _: ended.set())
        await until_either(stop, ended)
        if ended.is_set():
            renewal_ended.result()

    return watch
