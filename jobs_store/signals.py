"""What a wake-up says: where to look again. Ids only; what happened is read from the store."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from jobs_store.identifiers import JobId, TenantId


class Channel(StrEnum):
    """PostgreSQL's notification channels, and what the payload on each is."""

    JOBS_READY = "hourglass_jobs_ready"  # a lane
    JOBS_CHANGED = "hourglass_jobs_changed"  # tenant/job id
    CANCELS = "hourglass_cancels"  # tenant/job id


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A wake-up: the same value for whoever sends it and whoever waits for it."""

    channel: Channel
    key: str


Notify = Callable[[Signal], None]
"""Sends a wake-up some time soon, or never: it does not wait, does not fail, and nothing may rely on it."""


def jobs_ready(lane: str) -> Signal:
    """A lane has a job that can be claimed."""
    return Signal(channel=Channel.JOBS_READY, key=lane)


def job_changed(tenant: TenantId, job_id: JobId) -> Signal:
    """A job changed its state and opened an epoch."""
    return Signal(channel=Channel.JOBS_CHANGED, key=f"{tenant}/{job_id}")


def job_of(signal: Signal) -> tuple[TenantId, JobId]:
    """The job that a signal of `job_changed` is about."""
    tenant, job_id = signal.key.split("/")
    return TenantId(tenant), JobId(UUID(job_id))


def cancel_asked(tenant: TenantId, job_id: JobId) -> Signal:
    """A cancel stands in a running job's row."""
    return Signal(channel=Channel.CANCELS, key=f"{tenant}/{job_id}")


def silent(_: Signal) -> None:
    """`Notify` of a process that sends no wake-ups."""
