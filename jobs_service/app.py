"""The wiring of the job process."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Final

import structlog

from budget.core import Budget
from budget.errors import BudgetError
from budget.postgres import Database
from budget.retry import Retries
from jobs_service import policies as named
from jobs_service.databases import APPLICATION, Databases
from jobs_service.domain.new_job import Terms as CreateTerms
from jobs_service.methods import ADMIN_PAGE, methods
from jobs_service.presented_keys import finder
from jobs_service.rpc.admin.room import AdminUseCases
from jobs_service.rpc.job_servicer import UseCases
from jobs_service.rpc.pricing_client import PricingClient
from jobs_service.rpc.serving import add_to
from jobs_service.rpc.short_call_client import ShortCallClient
from jobs_service.rpc.worker_channels import WorkerChannels
from jobs_service.rpc.worker_client import WorkerLoadClient, WorkerProgress
from jobs_service.service.bulk import BulkDecider, BulkPace
from jobs_service.service.cancelling import JobCanceller
from jobs_service.service.creation import JobCreator
from jobs_service.service.deciding import JobDecider
from jobs_service.service.generating import Generator
from jobs_service.service.lane_control import LaneControl
from jobs_service.service.last_known import LastKnownPrices
from jobs_service.service.pauses import Pace
from jobs_service.service.quotes import Quoting
from jobs_service.service.request_rates import RatesPace, RequestRates
from jobs_service.service.settling import Settling
from jobs_service.service.sharing import SharedProgress
from jobs_service.service.waiting import JobWaiter
from jobs_service.service.watch_timer import TimerPace, WatchTimer
from jobs_service.service.watching import JobWatcher, WatchPace
from jobs_service.settings import JobsSettings
from jobs_store.api_keys import ApiKeyStore
from jobs_store.bulk import BulkRequests
from jobs_store.calls import CallStore
from jobs_store.cancellation import JobCancellation
from jobs_store.creation import JobCreation
from jobs_store.decisions import RetryTiming
from jobs_store.identifiers import new_job_id
from jobs_store.job_search import JobSearch
from jobs_store.lane_watch import LaneWatch
from jobs_store.lanes import LaneStore
from jobs_store.operator_decisions import OperatorDecisions
from jobs_store.overview import Overview
from jobs_store.quotes import QuoteStore
from jobs_store.reading import JobReader
from jobs_store.reaper import Reaper
from jobs_store.reaper_loop import ReaperLoop, ReaperPace
from jobs_store.retention import Retention, RetentionTerms
from jobs_store.retention_loop import RetentionLoop, RetentionPace
from jobs_store.statements import statement
from jobs_store.tenants import TenantDirectory, TenantStore
from jobs_store.verification import Verification, VerificationTerms
from jobs_store.wakeups import Backoff, Listener, Notifier, Subscriptions
from jobs_store.workers import WorkerDirectory
from servicekit.call import Authenticate, development_principal
from servicekit.certificates import Certificates
from servicekit.channels import client_options
from servicekit.connecting import Connecting
from servicekit.health import ReadinessLoop
from servicekit.identity.api_keys import ApiKeys, KeyAges
from servicekit.identity.outgoing import Outgoing
from servicekit.lifecycle import Loops, background_loops
from servicekit.rate_limit import RateLimits
from servicekit.request import Terms, trusted
from servicekit.saturation import LoopWatch, observe_databases
from servicekit.server import Server
from servicekit.telemetry import TelemetrySettings, start_telemetry

LOOP_GRACE: Final = 5.0
TELEMETRY_STOP_LIMIT: Final = 2.0
READY_CHECK_LIMIT: Final = 1.0
READY_CHECK_INTERVAL: Final = 1.0
FIRST_LOOK: Final = 0.2
REAPER_PAGE: Final = 100
"""Seconds, and rows."""

_log = structlog.stdlib.get_logger("hourglass.jobs")


def jitter(ceiling: float) -> float:
    """Seconds between 0 and a ceiling."""
    return random.uniform(0.0, ceiling)  # noqa: S311 - spreads processes, hides nothing


class JobsApp:
    """All parts of the process, wired; `serving` runs them."""

    def __init__(self, settings: JobsSettings, *, authenticate: Authenticate | None = None) -> None:
        """authenticate: in the place of what the settings say."""
        self._settings = settings
        self.databases = Databases.of(settings)
        self._policy_of = settings.policies.of_dependency(named.POSTGRES)
        self._subscriptions = Subscriptions()
        self._reader = JobReader(self.databases.request, self._policy_of)
        self._timer = WatchTimer(
            JobReader(self.databases.timer, self._policy_of), self._subscriptions, TimerPace(jitter=jitter)
        )
        self._notifier = Notifier(self.databases.wakeups, self._policy_of, backoff=Backoff(jitter=jitter))
        self._calls = CallStore(self.databases.request, self._policy_of)
        self._settling = Settling(self._calls, backoff=Backoff(jitter=jitter), limit=settings.settle_limit)
        self._gate = settings.gate(self._api_keys())
        self._outgoing = Outgoing(settings.peer_token)
        self._certificates = Certificates.of(settings)
        self._channels = WorkerChannels(partial(self._certificates.peer_channel, options=client_options()))
        self._pricing = self._certificates.peer_channel(
            settings.pricing_target, client_options(lb_round_robin=True)
        )
        self._workers = settings.workers_target and self._certificates.peer_channel(
            settings.workers_target, client_options(lb_round_robin=True)
        )
        self._rates = RateLimits(settings.rate_limit, burst=settings.rate_limit_burst)
        self.server = Server(
            settings,
            methods(max_stream_age=settings.max_stream_age),
            Terms(
                authenticate=authenticate or self._gate or development_principal,
                ledger_for=trusted(settings.ledger_tenants),
                admission=settings.admission_control(),
                rates=self._rates,
            ),
            certificates=self._certificates,
        )
        add_to(
            self.server,
            self._use_cases(),
            self._admin(),
            settings.limits,
            watch_write_limit=settings.watch_write_limit,
        )

    def _api_keys(self) -> ApiKeys | None:
        if self.databases.identity is None:
            return None
        ages = KeyAges(age=self._settings.api_key_age, outage=self._settings.api_key_outage)
        return ApiKeys(finder(ApiKeyStore(self.databases.identity, self._policy_of)), ages)

    def _use_cases(self) -> UseCases:
        database, policy_of = self.databases.request, self._policy_of
        reader = self._reader
        quotes = QuoteStore(database, policy_of)
        prices = PricingClient(self._pricing, Retries(), self._outgoing)
        last_known = LastKnownPrices(max_age=self._settings.last_known_price_age, clock=time.monotonic)
        pace = Pace(jitter=jitter, first=FIRST_LOOK)
        return UseCases(
            quoting=self._quoting(prices, quotes, last_known),
            creator=self._creator(prices, quotes, reader, last_known),
            reader=reader,
            waiter=JobWaiter(reader, self._subscriptions, self._timer, pace),
            watcher=self._watcher(reader, pace),
            canceller=JobCanceller(JobCancellation(database, policy_of), reader, self._notifier.notify),
            decider=JobDecider(OperatorDecisions(database, policy_of), reader, self._notifier.notify),
            generator=self._generator(prices),
        )

    def _admin(self) -> AdminUseCases:
        overview = Overview(self.databases.overview, self._policy_of)
        lanes = LaneStore(overview)
        tenants = TenantStore(self.databases.request, self._policy_of)
        return AdminUseCases(
            tenants=tenants,
            directory=TenantDirectory(overview),
            lifetimes=self._settings.retention,
            lanes=lanes,
            lane_control=LaneControl(lanes, self._notifier.notify),
            workers=WorkerDirectory(overview),
            api_keys=ApiKeyStore(self.databases.request, self._policy_of),
            verification=self._verification(),
            bulk=BulkDecider(
                requests=BulkRequests(overview),
                search=JobSearch(overview),
                decisions=OperatorDecisions(self.databases.request, self._policy_of),
                tenants=tenants,
                notify=self._notifier.notify,
                pace=BulkPace(page=ADMIN_PAGE),
            ),
        )

    def _verification(self) -> Verification | None:
        database, settings = self.databases.verify, self._settings
        if database is None:
            return None
        terms = VerificationTerms(
            overdue=2 * settings.reap_interval + settings.reap_wait, call_grace=settings.call_grace
        )
        return Verification(database, self._policy_of, terms=terms)

    def _generator(self, prices: PricingClient) -> Generator:
        book = self._settings.policies
        workers = ShortCallClient(
            self._workers or None,
            self._outgoing,
            connect=book.of(named.WORKER, named.CONNECT),
            generate=book.of(named.WORKER, named.GENERATE),
        )
        return Generator(
            self._calls,
            self._settling,
            prices,
            workers,
            price=book.of(named.PRICING, named.CREATE_PRICE),
            speeds=self._settings.speeds,
        )

    def _quoting(self, prices: PricingClient, quotes: QuoteStore, last_known: LastKnownPrices) -> Quoting:
        book = self._settings.policies
        return Quoting(
            prices,
            WorkerLoadClient(self._workers or None, self._outgoing),
            quotes,
            last_known,
            price=book.of(named.PRICING, named.QUOTE_PRICE),
            look=book.of(named.WORKER, named.LOOK),
            sql=book.of(named.POSTGRES, named.CREATE_QUOTE),
            lifetime=self._settings.quote_lifetime,
        )

    def _creator(
        self, prices: PricingClient, quotes: QuoteStore, reader: JobReader, last_known: LastKnownPrices
    ) -> JobCreator:
        settings = self._settings
        return JobCreator(
            JobCreation(self.databases.request, self._policy_of),
            quotes,
            reader,
            prices,
            last_known,
            price=settings.policies.of(named.PRICING, named.CREATE_PRICE),
            use_last_known=settings.last_known_price,
            terms=CreateTerms(
                key_lifetime=settings.key_lifetime, retry_unknown_below=settings.retry_unknown_below
            ),
            new_id=new_job_id,
            notify=self._notifier.notify,
        )

    def _watcher(self, reader: JobReader, pace: Pace) -> JobWatcher:
        policy = self._settings.policies.of(named.WORKER, named.FOLLOW)
        held = self._settings.watch_buffer
        progress = WorkerProgress(self._channels, self._outgoing, policy=policy)
        return JobWatcher(
            reader,
            SharedProgress(progress, held=held),
            self._subscriptions,
            self._timer,
            pace=WatchPace(pause=pace, heartbeat=self._settings.heartbeat),
            clock=time.monotonic,
        )

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Server]:
        """Serves during its body, then drains, stops the loops and closes everything."""
        try:
            async with (
                background_loops(grace=LOOP_GRACE + self._settings.settle_limit) as loops,
                self.server.serving(self._runs_on()),
            ):
                self._start(loops)
                yield self.server
        finally:
            await self._channels.close()
            await self._pricing.close()
            if self._workers:
                await self._workers.close()
            await self.databases.close()

    def _start(self, loops: Loops) -> None:
        observe_databases(self.databases.by_name)
        loops.start("loop watch", LoopWatch().run)
        loops.start("certificates", self._certificates.run)
        loops.start("connect", Connecting(self.databases.request, "request", jitter=jitter).run)
        readiness = ReadinessLoop(self.server.health, self._is_ready, interval=READY_CHECK_INTERVAL)
        loops.start("readiness", readiness.run)
        notify = Connecting(self.databases.wakeups, "wakeups", jitter=jitter, loop=self._notifier.run)
        loops.start("notify", notify.run)
        loops.start("listen", self._listener().run)
        timer = Connecting(self.databases.timer, "timer", jitter=jitter, loop=self._timer.run)
        loops.start("watch timer", timer.run)
        rates = RequestRates(
            self._rates,
            TenantStore(self.databases.timer, self._policy_of),
            RatesPace(interval=self._settings.rate_limit_refresh),
        )
        loops.start("request rates", rates.run)
        loops.start("settle", self._settling.run)
        if self.databases.overview is not None:
            loops.start("overview", Connecting(self.databases.overview, "overview", jitter=jitter).run)
        if self.databases.verify is not None:
            loops.start("verify", Connecting(self.databases.verify, "verify", jitter=jitter).run)
        if self.databases.identity is not None:
            loops.start("identity", Connecting(self.databases.identity, "identity", jitter=jitter).run)
        if self._gate is None:
            _log.warning("nobody is authenticated: whoever calls is believed")
        else:
            self._gate.start(loops)
        if self.databases.reaper is None:
            _log.warning("no reaper here: HOURGLASS_JOBS_WORKER_DATABASE_URL is not set")
        else:
            loops.start("reap", self._reaping(self.databases.reaper).run)

    def _listener(self) -> Listener:
        dsn = self._settings.listen_database_url or self._settings.database_url
        return Listener(
            dsn.get_secret_value(),
            self._subscriptions,
            application_name=f"{APPLICATION}-listener",
            backoff=Backoff(jitter=jitter),
        )

    def _reaping(self, database: Database) -> Connecting:
        settings, policy_of = self._settings, named.REAPER_POLICIES.of_dependency(named.POSTGRES)
        reaper = Reaper(
            database,
            policy_of,
            timing=RetryTiming(
                backoff_base=settings.backoff_base,
                backoff_cap=settings.backoff_cap,
                hold_timeout=settings.hold_timeout,
            ),
            jitter=jitter,
            page_size=REAPER_PAGE,
            call_grace=settings.call_grace,
        )
        pace = ReaperPace(interval=settings.reap_interval, reconnect_wait=settings.reap_wait)
        terms = RetentionTerms(lifetimes=settings.retention, interval=settings.retention_interval)
        retention = RetentionLoop(
            Retention(database, policy_of, terms),
            jitter=jitter,
            pace=RetentionPace.for_passes(terms.interval),
        )
        lanes = LaneWatch(database, policy_of, jitter=jitter)
        loop = ReaperLoop(
            reaper, database, policy_of, jitter=jitter, pace=pace, retention=retention, lanes=lanes
        )
        return Connecting(database, "reaper", jitter=jitter, loop=loop.run)

    async def _is_ready(self) -> bool:
        name = "check_connection"
        try:
            await self.databases.request.fetchval(
                Budget.for_work(READY_CHECK_LIMIT), self._policy_of(name), statement(name)
            )
        except BudgetError:
            return False
        return True

    def _runs_on(self) -> Mapping[str, str]:
        settings = self._settings
        return {
            "pricing": settings.pricing_target,
            "workers": settings.workers_target or "not looked at",
            "reaper": "here" if self.databases.reaper is not None else "not here",
            "verify": "here" if self.databases.verify is not None else "not here",
            "last_known_price": "allowed" if settings.last_known_price else "refused",
        }


async def run(settings: JobsSettings, observed: TelemetrySettings, stopping: asyncio.Event) -> None:
    """Serves until `stopping` is set, then drains."""
    telemetry = start_telemetry(
        APPLICATION, version("hourglass"), observed, metrics_listen=settings.metrics_listen
    )
    try:
        async with JobsApp(settings).serving():
            await stopping.wait()
    finally:
        await telemetry.stop(Budget.for_work(TELEMETRY_STOP_LIMIT))
