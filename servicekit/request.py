"""One request from its arrival to its status: the heart of the interceptor."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Never

import grpc

from budget.cancel import CancelWatch
from budget.core import Budget, Clock
from budget.errors import BudgetTooLow
from budget.ledger import Spend
from servicekit.admission import AdmissionControl, Passage
from servicekit.behaviours import Behaviour
from servicekit.call import Arrival, Authenticate, Call, Principal, development_principal, no_admission
from servicekit.context import STATUS_DETAILS, ServedContext, Trailers
from servicekit.drain import Drain, Scope
from servicekit.endings import SUCCESS, Circumstances, Verdict, caller_deadline_passed, judge
from servicekit.errors import Draining, Resume
from servicekit.methods import Admission, MethodPolicy
from servicekit.rate_limit import RateLimits
from servicekit.report import Report
from servicekit.spans import trace_context
from servicekit.wire_ledger import ledger_trailers


def everyone(_principal: Principal | None) -> bool:
    """Trusts every caller with the ledger."""
    return True


def trusted(tenants: Collection[str] | None) -> Callable[[Principal | None], bool]:
    """Trusts these tenants with the ledger, and nobody who is not known; None trusts everyone."""
    if tenants is None:
        return everyone
    return lambda principal: principal is not None and principal.tenant in tenants


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What holds for every request of a server.

    authenticate: finds the principal; believes the metadata by default (development).
    ledger_for: who gets the ledger in the trailing metadata; None is a caller who is not known.
    admission: limits what is in flight; None lets everybody in.
    rates: limits how often each tenant asks; None lets them ask as often as they like.
    """

    drain: Drain = field(default_factory=Drain)
    authenticate: Authenticate = development_principal
    ledger_for: Callable[[Principal | None], bool] = everyone
    admission: AdmissionControl | None = None
    rates: RateLimits | None = None
    clock: Clock = time.monotonic

    @property
    def authenticated(self) -> bool:
        """Whether a caller has to prove who they are; in development they are believed."""
        return self.authenticate is not development_principal


class Request:
    """Runs one behaviour under its budget and turns every ending into one verdict, told once."""

    def __init__(
        self,
        *,
        method: str,
        policy: MethodPolicy,
        inner: grpc.aio.ServicerContext[Any, Any],
        metadata: Mapping[str, str],
        terms: Terms,
        finished: Callable[[Report], None],
        forgetting: Callable[[Spend], None] | None = None,
    ) -> None:
        self._method = method
        self._policy = policy
        self._inner = inner
        self._metadata = metadata
        self._terms = terms
        self._finished = finished
        # grpc counts by the wall clock, which may step: converted once, here.
        self._started = terms.clock()
        self._incoming: float | None = inner.time_remaining()
        self._budget = Budget.root(
            incoming=self._incoming, default=policy.default, cap=policy.cap, clock=terms.clock
        )
        self._budget.ledger.forgetting = forgetting
        self._scope = Scope(self._budget, resumable=policy.resumable)
        self._passage: Passage | None = None
        if terms.admission is not None:
            self._passage = terms.admission.passage(method, policy.admission, self._budget)
        self._principal: Principal | None = None
        self._verdict: Verdict | None = None
        self._abort_error: grpc.aio.AbortError | asyncio.CancelledError | None = None

    async def run(self, behaviour: Behaviour) -> bytes | None:
        """The bytes of a single answer; None after a stream. Raises what grpc expects of an ended call."""
        self._terms.drain.enter(self._scope)
        try:
            return await self._answer(behaviour)
        finally:
            if self._passage is not None:
                self._passage.leave(self._verdict.ending if self._verdict else None)
            self._terms.drain.leave(self._scope)
            # They hold tracebacks, whose frames hold this request: only a full collection would end that.
            self._verdict = self._abort_error = None

    async def _answer(self, behaviour: Behaviour) -> bytes | None:
        watch = CancelWatch.here()
        try:
            return await self._handle(behaviour)
        except (asyncio.CancelledError, Exception) as error:
            if self._abort_error is not None:
                raise self._abort_error from error
            await self._end(judge(error, self._circumstances(watch)), ())

    async def _handle(self, behaviour: Behaviour) -> bytes | None:
        self._admit()
        context, response = await self._scope.limit(self._respond(behaviour))
        await self._succeed(context)
        return response

    async def _respond(self, behaviour: Behaviour) -> tuple[ServedContext, bytes | None]:
        self._principal = await self._terms.authenticate(self._arrival(), self._budget)
        self._limit_rate(self._principal.tenant)
        if self._passage is not None:
            self._passage.arrive()
        context = self._context(behaviour, self._principal)
        return context, await behaviour.respond(context)

    def _limit_rate(self, tenant: str) -> None:
        """Operators are let through, and so is a service that speaks for no tenant."""
        rates = self._terms.rates
        if rates is not None and tenant and self._policy.admission is not Admission.EXEMPT:
            rates.take(tenant, self._method)

    def _arrival(self) -> Arrival:
        return Arrival(self._method, self._policy.access, self._metadata, self._inner.auth_context)

    def _admit(self) -> None:
        if self._terms.drain.started.is_set():
            raise Draining
        if self._budget.spendable() <= 0:
            if self._policy.resumable:
                raise Resume
            raise BudgetTooLow(
                remaining=self._budget.remaining(), floor=self._budget.reserve, dependency="", method=""
            )

    def _context(self, behaviour: Behaviour, principal: Principal) -> ServedContext:
        trace = trace_context()
        call = Call(
            method=self._method,
            budget=self._budget,
            principal=principal,
            traceparent=trace.get("traceparent", ""),
            tracestate=trace.get("tracestate", ""),
            metadata=self._metadata,
            draining=self._terms.drain.started,
            admit=self._passage.admit if self._passage else no_admission,
            cut=lambda: self._scope.cut,
        )
        return ServedContext(self._inner, call=call, codec=behaviour.codec, abort=self._end)

    async def _succeed(self, context: ServedContext) -> None:
        """OK, unless the handler left another code in its context, or aborted and hid it."""
        if self._abort_error is not None:
            raise self._abort_error
        code = context.code()
        if code in {None, 0, grpc.StatusCode.OK}:
            self._inner.set_trailing_metadata((*context.trailers, *self._finish(SUCCESS)))
        else:
            await context.abort(code, context.details())

    async def _end(self, verdict: Verdict, trailers: Trailers) -> Never:
        ledger = self._finish(verdict)
        if verdict.status is None:
            # Nobody is there to be answered; grpc sends nothing after a cancel.
            raise asyncio.CancelledError from verdict.error
        others = tuple(pair for pair in trailers if pair[0] != STATUS_DETAILS)
        details = (STATUS_DETAILS, verdict.status.SerializeToString())
        await self._send(verdict.code, verdict.status.message, (*others, details, *ledger))

    async def _send(self, code: grpc.StatusCode, message: str, trailers: Trailers) -> Never:
        """Hands the status to core and waits for it to leave, half a reserve at most: a reader that takes
        nothing gets it when it reads again, and holds nothing of ours until then. Core refuses it
        (InternalError) when the caller's connection is gone: then nobody is there to be answered."""
        try:
            async with asyncio.timeout(self._budget.reserve / 2):
                await self._inner.abort(code, message, trailers)
        except grpc.aio.AbortError as error:
            self._abort_error = error
            raise
        except (TimeoutError, grpc.aio.InternalError):
            self._abort_error = asyncio.CancelledError()
            raise self._abort_error from None
        raise AssertionError("abort returned")

    def _finish(self, verdict: Verdict) -> Trailers:
        """Accounts for the request, once, and returns the ledger's trailers."""
        took = self._terms.clock() - self._started
        if self._verdict is None:
            self._verdict = verdict
            self._finished(self._report(verdict, took))
        if not self._terms.ledger_for(self._principal):
            return ()
        return ledger_trailers(self._budget, method=self._method, took=took, ending=verdict.ending)

    def _report(self, verdict: Verdict, took: float) -> Report:
        return Report(
            method=self._method.removeprefix("/"),
            principal=self._principal,
            verdict=verdict,
            budget=self._budget,
            took=took,
        )

    def _circumstances(self, watch: CancelWatch) -> Circumstances:
        drain = self._terms.drain
        remaining = None
        if self._incoming is not None:
            remaining = self._incoming - (self._terms.clock() - self._started)
        return Circumstances(
            cut=self._scope.cut,
            cancelled=watch.cancelled,
            deadline_passed=caller_deadline_passed(remaining=remaining, incoming=self._incoming),
            resumable=self._policy.resumable,
            draining=drain.started.is_set(),
            stopping=drain.stopping,
        )
