"""The one outermost server interceptor: budget, caller, span, ending, status, ledger, log of each request.

grpc.aio decides by the kind of callable how it runs a handler, and closes no generators (their `finally`
would run later, in another task). So each handler is wrapped into a coroutine of the same arity, which
consumes a generator itself and closes it before the request ends.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import grpc
from opentelemetry import metrics, trace

from servicekit.admission_metrics import observe_admission, observe_rates
from servicekit.behaviours import Behaviour, Handler, failing, wrapped
from servicekit.call import text_metadata
from servicekit.errors import MethodNotFound
from servicekit.methods import UNKNOWN_METHOD, MethodPolicies, MethodPolicy, is_exempt
from servicekit.report import Report, RequestLog
from servicekit.request import Request, Terms
from servicekit.request_metrics import RequestMetrics
from servicekit.saturation import observe_requests
from servicekit.spans import OTHER_METHOD, end_span, server_span

Context = grpc.aio.ServicerContext[Any, Any]


class RequestInterceptor(grpc.aio.ServerInterceptor):
    """Serves every request of a server but the exempt ones (health, reflection, channelz).

    methods: the budget of every served method; a method without one is answered with INTERNAL.
    """

    def __init__(
        self,
        methods: MethodPolicies,
        terms: Terms,
        *,
        tracer: trace.Tracer | None = None,
        meter: metrics.Meter | None = None,
    ) -> None:
        self.address = ""
        """Where the server listens, once it does."""
        self._methods = methods
        self._terms = terms
        self._tracer = tracer or trace.get_tracer("hourglass.servicekit")
        meter = meter or metrics.get_meter("hourglass.servicekit")
        self._metrics = RequestMetrics(meter)
        if terms.admission is not None:
            observe_admission(meter, terms.admission)
        if terms.rates is not None:
            observe_rates(meter, terms.rates)
        observe_requests(terms.drain, meter)
        self._log = RequestLog(terms.clock)
        self._served: dict[str, Handler] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], "Awaitable[Handler | None]"],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        """Wraps the handler; a method that is not served gets one that says so."""
        method = handler_call_details.method
        if (known := self._served.get(method)) is not None:
            return known
        handler = await continuation(handler_call_details)
        policy = self._methods.get(method)
        if is_exempt(method, self._methods):
            return handler
        if handler is None:
            serve = partial(self._serve, method, OTHER_METHOD, UNKNOWN_METHOD)
            return failing(MethodNotFound(method), serve)
        serve = partial(self._serve, method, method.removeprefix("/"), policy or UNKNOWN_METHOD)
        if policy is None:
            return failing(LookupError(f"{method} has no MethodPolicy"), serve)
        # A server's methods are registered before it starts: each is found and wrapped once.
        return self._served.setdefault(method, wrapped(handler, serve))

    def close(self) -> None:
        """After the last request: tells what the log has left out."""
        self._log.close()

    async def _serve(
        self, method: str, label: str, policy: MethodPolicy, inner: Context, behaviour: Behaviour
    ) -> bytes | None:
        metadata = text_metadata(inner.invocation_metadata())
        with server_span(self._tracer, label, metadata, inner.peer()) as span:
            request = Request(
                method=method,
                policy=policy,
                inner=inner,
                metadata=metadata,
                terms=self._terms,
                finished=partial(self._finished, label, span),
                forgetting=self._metrics.record_spend,
            )
            return await request.run(behaviour)

    def _finished(self, label: str, span: trace.Span, report: Report) -> None:
        self._log.write(label, report)
        self._metrics.record(label, report)
        end_span(span, label, report, address=self.address)
