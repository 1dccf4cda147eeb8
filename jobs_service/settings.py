"""Settings of the job process: `HOURGLASS_JOBS_...`."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated

from pydantic import Field
from pydantic_settings import NoDecode, SettingsConfigDict
from typing_extensions import override

from budget.policies import PolicyBook
from jobs_service.domain.limits import Limits
from jobs_service.domain.short_call import Speeds
from jobs_service.policies import POLICIES
from jobs_store.lifetimes import Lifetimes
from servicekit.admission_settings import AdmittingServerSettings
from servicekit.peer_settings import PeerSettings
from servicekit.policy_settings import overriding
from servicekit.setting_types import ListenAddress, SecretDatabaseUrl

_DAY = 86_400.0


class JobsSettings(AdmittingServerSettings, PeerSettings):
    """What the job process can be told. Times are seconds, amounts US dollars.

    database_url: PostgreSQL, as the request role. pool_size: connections as that role.
    worker_database_url: the same database as the worker role, for the reaper and for what operators do beyond
        a single tenant; without it this process takes over nothing, leaves that to the workers, and refuses
        to operators what is about all tenants. reaper_pool_size, overview_pool_size: connections as that role
        for the reaper and for operators.
    readonly_database_url: the same database as the read-only role, for Verify alone; without it this process
        refuses to verify. readonly_pool_size: connections as that role.
    listen_database_url: where to listen for wake-ups, past any PgBouncer; `database_url` when unset.
    statement_cache_size: prepared statements of a connection; 0 through a PgBouncer that knows none (before
        1.21) in transaction mode.
    pricing_target: gRPC target of PricingService. workers_target: of the workers; without it quotes say
        nothing about load and there are no short calls.
    last_known_price: whether a create may use the rates seen last while PricingService is out.
    last_known_price_age: for how long the rates seen last may be used.
    retry_unknown_below: an attempt of unknown outcome is retried by default when it cost less than this.
    key_lifetime: how long an idempotency key is good for. quote_lifetime: the same for a quote.
    payload_bytes: UTF-8 bytes that the messages of a job may have together.
    heartbeat: the longest silence of a watch. watch_buffer: live events of a job that its
        watchers may lag behind by, held once for all of them. watch_write_limit: how long a watcher may take
        to read what has filled its window, before it is told to come again.
    generate_first_token: when an answer is taken to begin, as a short call is weighed against its deadline.
        generate_tokens_per_second: how fast it is taken to go on. generate_lanes: the same for single lanes,
        as a JSON object.
    settle_limit: how long the settlement of a short call is tried. call_grace: after a call's deadline,
        until the reaper settles it.
    reap_interval: between two rounds of the reaper. reap_wait: after each connect, before the first one.
    backoff_base, backoff_cap: the first and the longest pause before another attempt of a job that it took
        over. hold_timeout: after so long a job of unknown outcome that waits for a decision fails. The same
        for workers.
    retention: how long what is kept, as a JSON object of seconds by class (see jobs_store.lifetimes); the
        same for workers. retention_interval: between two passes.
    api_keys: whether tenants may call by an API key. api_key_age: a key that was revoked is good no longer
        than this. api_key_outage: so long keys that were good go on while the database is away.
        api_key_pool_size: connections for looking keys up, which nothing else uses.
    rate_limit: requests a second that a tenant may send to this server, where it has no rate of its own; no
        limit when unset. rate_limit_burst: so many seconds of a rate may come at once. rate_limit_refresh:
        until a changed rate of a tenant counts here.
    policies: changes to what may be spent on each dependency, as JSON (see budget.policy_overrides).
    """

    model_config = SettingsConfigDict(env_prefix="HOURGLASS_JOBS_")

    listen: ListenAddress = "127.0.0.1:50051"
    database_url: SecretDatabaseUrl
    pool_size: int = Field(default=8, gt=0, le=1000)
    worker_database_url: SecretDatabaseUrl | None = None
    reaper_pool_size: int = Field(default=2, gt=0, le=100)
    overview_pool_size: int = Field(default=2, gt=0, le=100)
    readonly_database_url: SecretDatabaseUrl | None = None
    readonly_pool_size: int = Field(default=2, gt=0, le=100)
    listen_database_url: SecretDatabaseUrl | None = None
    statement_cache_size: int = Field(default=100, ge=0)
    pricing_target: str = Field(default="127.0.0.1:50052", min_length=1)
    workers_target: str | None = Field(default=None, min_length=1)
    last_known_price: bool = False
    last_known_price_age: float = Field(default=3600.0, gt=0)
    retry_unknown_below: Decimal = Field(default=Decimal("0.01"), ge=0)
    key_lifetime: float = Field(default=7 * _DAY, ge=60, le=366 * _DAY)
    quote_lifetime: float = Field(default=300.0, gt=0, le=_DAY)
    payload_bytes: int = Field(default=1024 * 1024, gt=0)
    heartbeat: float = Field(default=15.0, gt=0)
    watch_buffer: int = Field(default=256, gt=0)
    watch_write_limit: float = Field(default=30.0, gt=0)
    generate_first_token: float = Field(default=0.5, ge=0)
    generate_tokens_per_second: float = Field(default=40.0, gt=0)
    generate_lanes: Mapping[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    settle_limit: float = Field(default=4.0, gt=0, le=60)
    call_grace: float = Field(default=30.0, ge=0)
    reap_interval: float = Field(default=5.0, gt=0)
    reap_wait: float = Field(default=10.0, ge=0)
    backoff_base: float = Field(default=0.5, ge=0)
    backoff_cap: float = Field(default=60.0, ge=0)
    hold_timeout: float = Field(default=3600.0, gt=0)
    retention: Lifetimes = Field(default_factory=Lifetimes)
    retention_interval: float = Field(default=3600.0, gt=0)
    api_keys: bool = False
    api_key_age: float = Field(default=10.0, gt=0, le=300)
    api_key_outage: float = Field(default=300.0, ge=0, le=86_400)
    api_key_pool_size: int = Field(default=2, gt=0, le=100)
    rate_limit: float | None = Field(default=None, gt=0)
    rate_limit_burst: float = Field(default=2.0, gt=0)
    rate_limit_refresh: float = Field(default=10.0, gt=0)
    policies: Annotated[PolicyBook, NoDecode, overriding(POLICIES)] = POLICIES

    @property
    @override
    def knows_callers(self) -> bool:
        """As of every server; API keys are proof, too."""
        return self.api_keys or super().knows_callers

    @property
    def speeds(self) -> Speeds:
        """How fast answers are taken to come."""
        return Speeds(
            first_token=self.generate_first_token,
            tokens_per_second=self.generate_tokens_per_second,
            of_lane=self.generate_lanes,
        )

    @property
    def limits(self) -> Limits:
        """How large specs may be."""
        return Limits(payload_bytes=self.payload_bytes)
