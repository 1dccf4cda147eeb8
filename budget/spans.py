"""Client spans of the adapters: one a call, a statement or a transaction, never one a row.

Names and attributes follow the semantic conventions 1.44 for RPC and database clients; what is our own begins
with `hourglass.`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from typing_extensions import override

from budget.errors import BudgetExhausted, DependencyTimeout, UpstreamError
from budget.policy import Policy
from budget.spend import reason_of

POSTGRES: Final[Mapping[str, str]] = {"db.system.name": "postgresql"}
GRPC: Final[Mapping[str, str]] = {"rpc.system.name": "grpc"}
_OUT_OF_TIME: Final = "DEADLINE_EXCEEDED"

# Finds the provider that the process sets later, if it sets one.
_tracer: Final = trace.get_tracer("hourglass.budget")

Headers = tuple[tuple[str, str], ...]


def trace_headers(span: Span) -> Headers:
    """The W3C headers that make a span the parent of what is called; none for a span of no trace."""
    context = span.get_span_context()
    if not context.is_valid:
        return ()
    traceparent = (
        "traceparent",
        f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}",
    )
    if not context.trace_state:
        return (traceparent,)
    return (traceparent, ("tracestate", context.trace_state.to_header()))


def server_attributes(target: str) -> Mapping[str, str | int]:
    """`server.address` and `server.port` of a target such as `dns:///host:443`, `host:443`, `unix:/path`."""
    if target.startswith("unix:"):
        return {"server.address": target.removeprefix("unix:")}
    host, _, port = target.rpartition("/")[2].rpartition(":")
    if not host or not port.isdecimal():
        return {"server.address": target} if target else {}
    return {"server.address": host.removeprefix("ipv4:").strip("[]"), "server.port": int(port)}


class ClientSpan:
    """A span under the current one, for the length of a block. It is not made current: nothing is below it.

    A caller who leaves is no error of the dependency; whatever else is raised is, named by its reason. Where
    no span is recorded there is none: every parent-based sampler would drop it, and background work, which
    has no parent, would fill the store of traces with roots of one call each.
    """

    __slots__ = ("_attempt", "_policy", "_span")

    def __init__(self, policy: Policy, *, attempt: int = 1) -> None:
        self._policy = policy
        self._attempt = attempt
        self._span: Span

    @property
    def name(self) -> str:
        """The span's name."""
        return self._policy.method

    def attributes(self) -> Mapping[str, str | int]:
        """What is known when it begins; asked for only if it is recorded."""
        return {**POSTGRES, "db.operation.name": self._policy.method}

    def ending(self, error: BaseException | None) -> Mapping[str, str]:
        """What is known of the protocol's answer when it has ended."""
        sqlstate = getattr(error, "sqlstate", "")
        return {"db.response.status_code": sqlstate} if sqlstate else {}

    def error_type(self, error: BaseException) -> str:
        """The class of an error, for `error.type`."""
        return reason_of(error)

    def __enter__(self) -> Self:
        self._span = trace.get_current_span()
        if self._span.is_recording():
            attributes = {
                **self.attributes(),
                "hourglass.dependency": self._policy.dependency,
                "hourglass.attempt": self._attempt,
            }
            self._span = _tracer.start_span(self.name, kind=SpanKind.CLIENT, attributes=attributes)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        span = self._span
        if not span.is_recording():
            return
        span.set_attributes(self.ending(error))
        if isinstance(error, asyncio.CancelledError | GeneratorExit):
            span.set_attribute("hourglass.cancelled", True)  # noqa: FBT003 - OpenTelemetry's own signature
        elif error is not None:
            reason = reason_of(error)
            span.set_attributes({"error.type": self.error_type(error), "hourglass.reason": reason})
            span.set_status(Status(StatusCode.ERROR, reason))
        span.end()


class GrpcSpan(ClientSpan):
    """The span of one RPC, and the parent of the span that the service makes of it."""

    __slots__ = ("_method",)

    def __init__(self, policy: Policy, method: object, *, attempt: int = 1) -> None:
        super().__init__(policy, attempt=attempt)
        self._method = method

    def headers(self, metadata: Sequence[tuple[str, str]]) -> Headers:
        """The metadata with the trace context of this span; of the current one where this is not recorded."""
        return (*metadata, *trace_headers(self._span))

    @property
    @override
    def name(self) -> str:
        return _method_name(self._method) or super().name

    @override
    def attributes(self) -> Mapping[str, str | int]:
        return {**GRPC, "rpc.method": self.name, **_server(self._method)}

    @override
    def ending(self, error: BaseException | None) -> Mapping[str, str]:
        code = _status_code(error)
        return {"rpc.response.status_code": code} if code else {}

    @override
    def error_type(self, error: BaseException) -> str:
        return _status_code(error) or super().error_type(error)


# A stub's methods do not tell what they call, nor where; grpc.aio keeps both, but promises them to nobody.
def _method_name(method: object) -> str:
    name = getattr(method, "_method", b"")
    return name.decode().removeprefix("/") if isinstance(name, bytes) else ""


def _server(method: object) -> Mapping[str, str | int]:
    target: Any = getattr(getattr(method, "_channel", None), "target", b"")
    return server_attributes(target.decode()) if isinstance(target, bytes) else {}


def _status_code(error: BaseException | None) -> str:
    """The name of the status of a call that ended with this; empty for one that was not sent."""
    if error is None:
        return "OK"
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        return "CANCELLED"
    if isinstance(error, UpstreamError):
        return error.code
    return _OUT_OF_TIME if isinstance(error, BudgetExhausted | DependencyTimeout) else ""
