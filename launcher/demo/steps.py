"""What a caller of JobService does with one job: price it, create it, watch it, read it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import grpc

from budget.core import Budget
from hourglass.budget.v1.ledger_pb2 import BudgetLedger
from hourglass.jobs.v1.job_pb2 import Job, JobSpec, Message, Role
from hourglass.jobs.v1.jobs_service_pb2 import (
    CreateJobRequest,
    CreateJobResponse,
    GetJobRequest,
    QuoteLine,
    QuoteLineStatus,
    QuoteRequest,
    QuoteResponse,
    WatchJobRequest,
)
from hourglass.jobs.v1.jobs_service_pb2_grpc import JobServiceStub
from hourglass_client.transcript import Transcript
from launcher.demo.errors import DemoFailed
from presentation.rpc_failure import RpcFailure
from servicekit.channels import client_options

if TYPE_CHECKING:
    from hourglass.jobs.v1.jobs_service_pb2_grpc import JobServiceAsyncStub

QUOTE_LIMIT: Final = 2.0
CREATE_LIMIT: Final = 2.0
READ_LIMIT: Final = 5.0
LEAST_WATCH: Final = 1.0
LEDGER: Final = "budget-ledger-bin"
RESUME: Final = "RESUME"

Seen = Callable[[Transcript], bool]
"""Is shown the transcript after each event; True leaves the stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked, and whom."""

    model: str
    prompt: str
    max_tokens: int

    @property
    def messages(self) -> list[Message]:
        """The conversation."""
        return [Message(role=Role.ROLE_USER, content=self.prompt)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """An answered quote, its one line, and where its time went."""

    response: QuoteResponse
    line: QuoteLine
    ledger: BudgetLedger


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """An answered create call, and where its time went."""

    response: CreateJobResponse
    ledger: BudgetLedger


def connected(target: str) -> grpc.aio.Channel:
    """A connection of its own to JobService."""
    return grpc.aio.insecure_channel(target, options=client_options())


async def quote(channel: grpc.aio.Channel, question: Question) -> Quoted:
    """The price of one model. Raises DemoFailed when it has none."""
    request = QuoteRequest(
        models=[question.model],
        messages=question.messages,
        max_output_token_count=question.max_tokens,
    )
    call = _stub(channel).Quote(request, timeout=_deadline(QUOTE_LIMIT))
    response = await call
    line = response.lines[0]
    if line.status != QuoteLineStatus.QUOTE_LINE_STATUS_OK:
        raise DemoFailed("quote", f"{line.model} was not priced: {line.reason}")
    return Quoted(response=response, line=line, ledger=_ledger(await call.trailing_metadata()))


async def create(channel: grpc.aio.Channel, question: Question, quote_id: str) -> Created:
    """Create the job under a deadline of `CREATE_LIMIT` seconds, by the quote."""
    spec = JobSpec(
        model=question.model, messages=question.messages, max_output_token_count=question.max_tokens
    )
    request = CreateJobRequest(idempotency_key=f"demo-{uuid4()}", spec=spec, quote_id=quote_id)
    call = _stub(channel).CreateJob(request, timeout=_deadline(CREATE_LIMIT))
    response = await call
    return Created(response=response, ledger=_ledger(await call.trailing_metadata()))


async def watch(target: str, job_id: str, transcript: Transcript, seen: Seen, *, budget: Budget) -> None:
    """Add the job's events to the transcript until the last one has come or `seen` has seen enough.

    On a connection of its own, after the transcript's cursor. Goes on by itself when the server asks for it;
    raises DemoFailed when the budget is nearly over.
    """
    while not transcript.ended:
        try:
            async with connected(target) as channel:
                if await _follow(channel, job_id, transcript, seen, budget=budget):
                    return
        except grpc.aio.AioRpcError as error:
            if RpcFailure.of(error).reason != RESUME:
                raise
            if budget.spendable() < LEAST_WATCH:
                raise DemoFailed(
                    "watch", f"after {budget.initial:g} s the job is still {transcript.state_name}"
                ) from error


async def read(channel: grpc.aio.Channel, job_id: str) -> Job:
    """The job with its attempts, its money and its result."""
    request = GetJobRequest(job_id=job_id, include_attempts=True, include_content=True)
    response = await _stub(channel).GetJob(request, timeout=_deadline(READ_LIMIT))
    return response.job


async def _follow(
    channel: grpc.aio.Channel, job_id: str, transcript: Transcript, seen: Seen, *, budget: Budget
) -> bool:
    request = WatchJobRequest(job_id=job_id, after_sequence=transcript.cursor)
    call = _stub(channel).WatchJob(request, timeout=budget.wire_timeout())
    try:
        async for message in call:
            if message.WhichOneof("message") != "event":
                continue
            transcript.add(message.event)
            if seen(transcript):
                return True
    finally:
        call.cancel()
    return False


def _stub(channel: grpc.aio.Channel) -> "JobServiceAsyncStub":
    return JobServiceStub(channel)


def _deadline(seconds: float) -> float | None:
    return Budget.for_work(seconds).wire_timeout()


def _ledger(trailers: Any) -> BudgetLedger:
    for key, value in trailers:
        if key == LEDGER:
            return BudgetLedger.FromString(value)
    raise DemoFailed("ledger", f"the answer carries no {LEDGER}")
