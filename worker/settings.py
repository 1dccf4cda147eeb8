"""Settings of a worker: `HOURGLASS_WORKER_...`."""

import os
import socket
from math import inf
from typing import Annotated, Final

from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from budget.policies import PolicyBook
from jobs_store.lifetimes import Lifetimes
from servicekit.admission_settings import AdmittingServerSettings
from servicekit.policy_settings import overriding
from servicekit.setting_types import DatabaseUrl, ListenAddress
from worker.policies import POLICIES
from worker.providers.routes import ProviderRoute, Routes

_WILDCARDS: Final = frozenset({"0.0.0.0", "[::]", "::", "*"})  # noqa: S104 - not bound, refused


def _name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


class WorkerSettings(AdmittingServerSettings):
    """What a worker can be told. Times are seconds, sizes bytes, amounts of work counts.

    database_url: PostgreSQL, as the worker role. database_size: connections to it. direct_database_url: to
        the server itself, for LISTEN, when the other one goes through a pooler.
    wake_ups: whether to listen and notify at all; without, everything polls.
    statement_cache_size: prepared statements of a connection; 0 through a PgBouncer that knows none (before
        1.21) in transaction mode.
    name: of this worker, in attempts and events. advertised_address: where others reach it; by default where
        it listens.
    routes: the providers, as a JSON list; first match wins.

    slots: runs at once. generate_slots: short calls at once, beside them. poll_interval: between two looks
        for work without a signal, about. claim_tenants: tenants looked at in a lane at once.
    lease: how long a claim or a renewal holds a job. renewal_interval: between two renewals.
        renewal_retry: after one that failed. cut_off: without a renewal for so long no call starts.
    coalesce: chunks within so long are one delta. flush_interval, flush_size: events become durable after so
        long, or so much text.
    log_events, log_size: so many events, or so much text, of a run are held for readers.
    heartbeat: the longest silence of a StreamProgress. write_limit: how long its reader may take to read what
        has filled its window.
    policies: changes to what may be spent on each dependency, as JSON (see budget.policy_overrides).
    ending_patience: how long an ending is tried while Postgres is away.
    drain_grace: how long calls may go on after SIGTERM. ending_grace: how long their endings take then.
    backoff_base, backoff_cap: the first and the longest pause before another attempt. platform_park: for how
        long a lane rests after an answer that is our own fault, such as 401. hold_timeout: after so long a
        job of unknown outcome that waits for a decision fails.
    look_up_interval: between two questions about a held job, to providers that can be asked.
    look_up_patience: how long a run asks its provider before it says that it does not know.
    reap_interval: between two rounds of the reaper. reap_wait: after each connect, before the first one.
    call_grace: after its deadline, for a short call's own server to settle it.
    retention: how long what is kept, as a JSON object of seconds by class (see jobs_store.lifetimes); the
        same for the job service. retention_interval: between two passes.
    """

    model_config = SettingsConfigDict(env_prefix="HOURGLASS_WORKER_")

    listen: ListenAddress = "127.0.0.1:50053"
    database_url: DatabaseUrl
    database_size: int = Field(default=6, ge=1, le=100)
    direct_database_url: DatabaseUrl | None = None
    statement_cache_size: int = Field(default=100, ge=0)
    wake_ups: bool = True
    name: str = Field(default_factory=_name, min_length=1, max_length=200)
    advertised_address: str | None = Field(default=None, validate_default=True)
    routes: tuple[ProviderRoute, ...] = Field(min_length=1)

    slots: int = Field(default=64, ge=1, le=10_000)
    generate_slots: int = Field(default=64, ge=1, le=10_000)
    poll_interval: float = Field(default=1.0, gt=0)
    claim_tenants: int = Field(default=100, ge=1)

    lease: float = Field(default=30.0, gt=0)
    renewal_interval: float = Field(default=8.0, gt=0)
    renewal_retry: float = Field(default=0.5, gt=0)
    cut_off: float = Field(default=24.0, gt=0, validate_default=True)

    coalesce: float = Field(default=0.03, ge=0)
    flush_interval: float = Field(default=0.2, gt=0)
    flush_size: int = Field(default=8192, gt=0)
    log_events: int = Field(default=4096, ge=16)
    log_size: int = Field(default=1024 * 1024, gt=0)
    heartbeat: float = Field(default=15.0, gt=0)
    write_limit: float = Field(default=5.0, gt=0)

    policies: Annotated[PolicyBook, NoDecode, overriding(POLICIES)] = POLICIES
    ending_patience: float = Field(default=600.0, gt=0)
    ending_grace: float = Field(default=10.0, gt=0)

    backoff_base: float = Field(default=0.5, ge=0)
    backoff_cap: float = Field(default=60.0, ge=0)
    platform_park: float = Field(default=60.0, gt=0)
    hold_timeout: float = Field(default=3600.0, gt=0)

    look_up_interval: float = Field(default=10.0, gt=0)
    look_up_patience: float = Field(default=10.0, gt=0)

    reap_interval: float = Field(default=5.0, gt=0)
    reap_wait: float = Field(default=10.0, ge=0)
    call_grace: float = Field(default=30.0, ge=0)
    retention: Lifetimes = Field(default_factory=Lifetimes)
    retention_interval: float = Field(default=3600.0, gt=0)

    @field_validator("cut_off")
    @classmethod
    def _check_cut_off(cls, cut_off: float, info: ValidationInfo) -> float:
        renewal, lease = info.data.get("renewal_interval", 0.0), info.data.get("lease", inf)
        if not renewal < cut_off < lease:
            raise ValueError(
                f"is {cut_off:g}; wanted: renewal_interval ({renewal:g}) < cut_off < lease ({lease:g})"
            )
        return cut_off

    @field_validator("routes")
    @classmethod
    def _check_names(cls, routes: tuple[ProviderRoute, ...]) -> tuple[ProviderRoute, ...]:
        Routes(routes=routes)
        return routes

    @field_validator("advertised_address")
    @classmethod
    def _check_reachable(cls, address: str | None, info: ValidationInfo) -> str | None:
        if address is None and info.data.get("listen", "").rpartition(":")[0] in _WILDCARDS:
            raise ValueError("is required, since the worker listens on no address that can be reached")
        return address
