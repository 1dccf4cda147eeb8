"""One run, from its claim to its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, assert_never

import structlog

from budget.core import Budget
from jobs_store.endings import Verdict
from jobs_store.events import EventKind, NewEvent
from jobs_store.states import ErrorClass
from worker.interrupt import Interrupted
from worker.outcome import (
    CUT_OFF,
    UNROUTED_MODEL,
    WORKER_ERROR,
    Answered,
    CallEnd,
    Closed,
    Failed,
    Stop,
    Unsent,
    finish_reason_of,
)
from worker.providers.errors import ProviderError
from worker.providers.protocol import Delta, Finished, GenerationRequest, Message, UsageReport
from worker.providers.routes import UnroutedModel
from worker.tracing import note_end

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs_store.rate_card import Usage
    from jobs_store.runs import Claimed, Started
    from worker.active import Run
    from worker.finisher import Finisher
    from worker.look_up import RunLookUp
    from worker.providers.protocol import GenerationEvent, Provider
    from worker.providers.routes import Routes
    from worker.starter import Starter
    from worker.tracing import RunTraces

_log = structlog.stdlib.get_logger("hourglass.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Providers:
    """The configured providers, and which model goes to which."""

    routes: Routes
    by_name: Mapping[str, Provider]

    def find(self, model: str) -> Provider:
        """Raises UnroutedModel."""
        return self.by_name[self.routes.find(model).name]


@dataclass(slots=True)
class Answer:
    """What of an answer has arrived beside its text."""

    usage: Usage | None = None
    finished: Finished | None = None

    def end(self) -> Answered | None:
        """The end of the call, None while the answer is not whole."""
        if self.finished is None:
            return None
        return Answered(
            finish_reason=finish_reason_of(self.finished.finish_reason),
            provider_request_id=self.finished.provider_request_id,
            usage=self.usage,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Runs claimed jobs. cut_off: seconds without a renewal after which no call starts."""

    providers: Providers
    starter: Starter
    finisher: Finisher
    traces: RunTraces
    look_up: RunLookUp
    cut_off: float

    async def execute(self, run: Run) -> None:
        """Start step, the provider's answer, and whatever becomes of the job."""
        with self.traces.run(run.claimed) as span:
            end = await self._attempt(run)
            note_end(span, end)
            await self.finisher.end(run, end)

    async def _attempt(self, run: Run) -> CallEnd:
        try:
            provider, request = self.providers.find(run.claimed.model), request_of(run.claimed)
        except UnroutedModel:
            return Failed(cause=UNROUTED_MODEL, error_class=ErrorClass.PLATFORM, sent=False)
        except Exception:  # noqa: BLE001 - such a job must end, and not its worker
            _log.exception("a job cannot be read", job=str(run.claimed.job_id))
            return Unsent(cause=WORKER_ERROR, crashed=True)
        return await self._start(run) or await self._sent(run, provider, request)

    async def _start(self, run: Run) -> Unsent | None:
        """Takes the start step; answers why not, if not."""
        try:
            async with run.interrupt.guard():
                started = await self.starter.start(run)
        except Interrupted as interrupted:
            return Unsent.because_of(interrupted.stop)
        except Exception:  # noqa: BLE001 - the same
            _log.exception("a start step failed", job=str(run.claimed.job_id))
            return Unsent(cause=WORKER_ERROR, crashed=True)
        return self._after_start(run, started)

    def _after_start(self, run: Run, started: Started) -> Unsent | None:
        match started.verdict:
            case Verdict.OK if run.lease.age() > self.cut_off:
                return Unsent(cause=CUT_OFF)
            case Verdict.OK:
                _note_start(run, started)
                return None
            case Verdict.CANCEL_REQUESTED:
                return Unsent.because_of(Stop.CANCEL_REQUESTED)
            case Verdict.LEASE_LOST | Verdict.HELD | Verdict.BUSY | Verdict.NOT_DUE:
                return Unsent.because_of(Stop.LEASE_LOST)
            case _:
                assert_never(started.verdict)

    async def _sent(self, run: Run, provider: Provider, request: GenerationRequest) -> CallEnd:
        """The call, and what its provider says became of it if the call itself does not."""
        return await self.look_up.after(run, provider, await self._call(run, provider, request))

    async def _call(self, run: Run, provider: Provider, request: GenerationRequest) -> CallEnd:
        answer = Answer()
        try:
            async with run.interrupt.guard():
                await _read(run, provider, request, answer)
        except Interrupted as interrupted:
            return answer.end() or Closed(stop=interrupted.stop, close_time=run.log.now())
        except ProviderError as error:
            _log.info("a call failed", job=str(run.claimed.job_id), error=str(error), kind=error.kind)
            return answer.end() or _failed(error)
        except Exception:  # noqa: BLE001 - the call may have run: an ending has to say so
            _log.exception("a call broke off", job=str(run.claimed.job_id))
        return answer.end() or Failed(cause=WORKER_ERROR, error_class=ErrorClass.UNKNOWN)


def request_of(run: Claimed) -> GenerationRequest:
    """What the provider is asked. Its key is the attempt's own: a look-up finds this call and no other.

    KeyError, TypeError or ValueError when the stored payload makes no sense.
    """
    sampling = run.sampling
    return GenerationRequest(
        model=run.model,
        messages=tuple(Message(role=_role(m["role"]), content=str(m["content"])) for m in run.messages),
        max_output_tokens=run.max_output_tokens,
        request_key=str(run.token),
        temperature=sampling.get("temperature"),
        top_p=sampling.get("top_p"),
        stop=tuple(sampling.get("stop") or ()),
        seed=sampling.get("seed"),
    )


async def _read(run: Run, provider: Provider, request: GenerationRequest, answer: Answer) -> None:
    budget = Budget.for_work(run.claimed.attempt_timeout)
    async with provider.stream(request, budget=budget) as events:
        async for event in events:
            _take(event, run, answer)


def _take(event: GenerationEvent, run: Run, answer: Answer) -> None:
    match event:
        case Delta(text=text):
            run.progress.chunk(text)
        case UsageReport(usage=usage):
            answer.usage = usage
        case Finished():
            answer.finished = event
        case _:
            assert_never(event)


def _role(role: str) -> Literal["system", "user", "assistant"]:
    match role:
        case "system" | "user" | "assistant":
            return role
        case _:
            raise ValueError(f"a message's role is {role!r}")


def _note_start(run: Run, started: Started) -> None:
    run.sent = True
    attributes = {"provider": run.claimed.provider, "provider_model": run.claimed.model}
    sent = NewEvent(kind=EventKind.ATTEMPT_SENT, attributes=attributes)
    assert started.send_time is not None, "a start step that was taken has its time"
    run.send_time = started.send_time
    run.log.started(sent, time=started.send_time)


def _failed(error: ProviderError) -> Failed:
    return Failed(
        cause=error.cause,
        error_class=ErrorClass(error.error_class.value),
        sent=error.sent,
        message=str(error),
        provider_request_id=error.provider_request_id,
        http_status=error.http_status,
        usage=error.usage,
        retry_after=error.retry_after,
    )
