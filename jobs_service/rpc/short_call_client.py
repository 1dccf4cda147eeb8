"""WorkerService.Generate, as the use case of short calls knows it: one wire call, never a second one."""

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import grpc

from budget.core import Budget
from budget.errors import UpstreamError, UpstreamTimeout
from budget.grpc_client import stream
from budget.policy import Policy
from budget.spend import spend
from hourglass.jobs.v1 import job_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as jobs_pb
from hourglass.worker.v1 import worker_service_pb2 as pb
from hourglass.worker.v1.worker_service_pb2_grpc import WorkerServiceStub
from jobs_service.domain.errors import ModelNotRouted, ProviderFailed, WorkerOverloaded, WorkerUnavailable
from jobs_service.domain.short_call import Answered, CallSent, Text, WorkerCall, WorkerMessage
from jobs_service.domain.spec import Spec
from jobs_store.rate_card import Usage
from jobs_store.states import ErrorClass, FinishReason
from servicekit.identity.outgoing import Outgoing
from wire.enums import from_wire, to_wire
from wire.rate_card import rate_card_message
from wire.usage import provider_cost_of, usage_of

_PROVIDER_REASONS: Final = frozenset({"PROVIDER_UNAVAILABLE", "PROVIDER_REFUSED"})
_READY: Final = grpc.ChannelConnectivity.READY


class ShortCallClient:
    """Calls over one channel, which spreads them over the workers that are healthy.

    connect, generate: policies of waiting for a worker, and of the call.
    """

    def __init__(
        self, channel: grpc.aio.Channel | None, outgoing: Outgoing, *, connect: Policy, generate: Policy
    ) -> None:
        self._channel = channel
        self._stub = None if channel is None else WorkerServiceStub(channel)
        self._outgoing = outgoing
        self._connect = connect
        self._generate = generate

    async def reach(self, *, budget: Budget) -> None:
        """See `ports.ShortCalls`."""
        channel = self._channel
        if channel is None:
            raise WorkerUnavailable(called=False)
        if channel.get_state(try_to_connect=True) is _READY:
            return
        try:
            async with spend(budget, self._connect):
                while (state := channel.get_state(try_to_connect=True)) is not _READY:
                    await channel.wait_for_state_change(state)
        except UpstreamTimeout as error:
            raise WorkerUnavailable(called=False) from error

    async def run(
        self, call: WorkerCall, take: Callable[[WorkerMessage], Awaitable[None]], *, budget: Budget
    ) -> None:
        """See `ports.ShortCalls`."""
        if self._stub is None:
            raise WorkerUnavailable(called=False)
        sent = False
        try:
            async with stream(
                self._stub.Generate,
                _request(call),
                budget=budget,
                policy=self._generate,
                metadata=self._outgoing.metadata(tenant=call.tenant),
            ) as responses:
                async for response in responses:
                    sent = sent or response.HasField("sent")
                    message = _message_of(response)
                    if message is not None:
                        await take(message)
        except UpstreamError as error:
            raise _failure(error, call.spec.model, sent=sent) from error


def _request(call: WorkerCall) -> pb.GenerateRequest:
    return pb.GenerateRequest(
        call_id=str(call.call_id),
        tenant_id=call.tenant,
        request=_asked(call.spec),
        provider_rate_card=rate_card_message(call.provider_rate_card),
        input_token_estimate=call.input_token_estimate,
    )


def _asked(spec: Spec) -> jobs_pb.GenerateRequest:
    return jobs_pb.GenerateRequest(
        model=spec.model,
        messages=[
            job_pb2.Message(role=to_wire(job_pb2.Role, message["role"].upper()), content=message["content"])
            for message in spec.messages
        ],
        max_output_token_count=spec.max_output_tokens,
        sampling=_sampling_message(spec.sampling),
    )


def _sampling_message(sampling: Mapping[str, Any]) -> job_pb2.SamplingOptions:
    return job_pb2.SamplingOptions(
        temperature=sampling.get("temperature"),
        top_p=sampling.get("top_p"),
        stop_sequences=sampling.get("stop") or (),
        seed=sampling.get("seed"),
    )


def _message_of(response: pb.GenerateResponse) -> WorkerMessage | None:
    """None for a kind that this release does not know."""
    match response.WhichOneof("message"):
        case "sent":
            return CallSent()
        case "token_delta":
            delta = response.token_delta
            return Text(text=delta.text, offset=delta.offset, tokens=delta.token_count)
        case "result":
            return _answered(response.result)
        case _:
            return None


def _answered(result: pb.GenerateResult) -> Answered:
    reason = from_wire(job_pb2.FinishReason, result.finish_reason, FinishReason)
    return Answered(
        finish_reason=reason or FinishReason.OTHER,
        usage=usage_of(result.usage),
        cost=provider_cost_of(result.provider_cost),
        provider_request_id=result.provider_request_id,
    )


def _failure(error: UpstreamError, model: str, *, sent: bool) -> Exception:
    """What a worker's error means. One that it sent itself, before it said `sent`, called no provider."""
    pushback = error.pushback
    retry_after = None if pushback is None or math.isinf(pushback) else pushback
    if error.upstream_reason in _PROVIDER_REASONS:
        return _provider_failure(error, retry_after)
    called = sent or not error.upstream_reason
    if not called and error.code == "RESOURCE_EXHAUSTED":
        return WorkerOverloaded(retry_after)
    if not called and error.upstream_reason == ModelNotRouted.reason:
        return ModelNotRouted(model)
    return WorkerUnavailable(called=called, retry_after=retry_after)


def _provider_failure(error: UpstreamError, retry_after: float | None) -> ProviderFailed:
    told = error.upstream_metadata
    known = told.get("error_class") in ErrorClass.__members__
    return ProviderFailed(
        refused=error.upstream_reason == "PROVIDER_REFUSED",
        provider=told.get("provider", ""),
        cause=told.get("cause", error.upstream_reason),
        error_class=ErrorClass(told["error_class"]) if known else ErrorClass.UNKNOWN,
        sent=told.get("sent") != "false",
        provider_request_id=told.get("provider_request_id", ""),
        usage=_counted(told),
        retry_after=retry_after,
    )


def _counted(told: Mapping[str, str]) -> Usage | None:
    """The tokens that the provider counted before it failed; None if it did not."""
    try:
        return Usage(
            input_tokens=int(told["input_token_count"]),
            cached_input_tokens=int(told["cached_input_token_count"]),
            output_tokens=int(told["output_token_count"]),
        )
    except (KeyError, ValueError):
        return None
