"""Who asks, as far as the service needs to know."""

from dataclasses import dataclass

from jobs_store.identifiers import TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A tenant's user, the trace that the request belongs to, and which retry it is (0: none)."""

    tenant: TenantId
    user: str
    traceparent: str = ""
    tracestate: str = ""
    retry_attempt: int = 0
