"""Client spans of the adapters: one a call, a statement or a transaction, never one a row."""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from opentelemetry import trace
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, Status, StatusCode

from budget.policy import Policy
from budget.spend import reason_of

GRPC: Final[Mapping[str, str]] = {"rpc.system.name": "grpc"}
POSTGRES: Final[Mapping[str, str]] = {"db.system.name": "postgresql"}

# Finds the provider that the process sets later, if it sets one.
_tracer: Final = trace.get_tracer("hourglass.budget")


class ClientSpan:
    """A span under the current one, for the length of a block. It is not made current: nothing is below it.

    A caller who leaves is no error of the dependency; whatever else is raised is, named by its reason. Where
    no span is recorded there is none: every parent-based sampler would drop it, and background work, which
    has no parent, would fill the store of traces with roots of one call each.
    """

    __slots__ = ("_attempt", "_policy", "_span", "_system")

    def __init__(self, policy: Policy, system: Mapping[str, str], *, attempt: int = 1) -> None:
        self._policy = policy
        self._system = system
        self._attempt = attempt
        self._span: Span

    def __enter__(self) -> Self:
        if not trace.get_current_span().is_recording():
            self._span = INVALID_SPAN
            return self
        name = f"{self._policy.dependency}/{self._policy.method}"
        self._span = _tracer.start_span(name, kind=SpanKind.CLIENT)
        if self._span.is_recording():
            self._span.set_attributes({**self._system, "hourglass.attempt": self._attempt})
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if not self._span.is_recording():
            return
        if isinstance(error, asyncio.CancelledError | GeneratorExit):
            self._span.set_attributes({"hourglass.cancelled": True})
        elif error is not None:
            self._span.set_attribute("error.type", reason_of(error))
            self._span.set_status(Status(StatusCode.ERROR, reason_of(error)))
        self._span.end()
