"""What a caller of JobService does with one job: price it, create it, watch it, read it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from budget.core import Budget
from hourglass.budget.v1.ledger_pb2 import BudgetLedger
from hourglass.jobs.v1.job_pb2 import Job, JobSpec, Message, Role, UnknownOutcomePolicy
from hourglass.jobs.v1.jobs_service_pb2 import (
    CreateJobResponse,
    QuoteLine,
    QuoteLineStatus,
    QuoteRequest,
    QuoteResponse,
)
from hourglass_client import AsyncClient, DeadlineExceeded, Terms, Transcript
from launcher.demo.errors import DemoFailed

QUOTE_LIMIT: Final = 2.0
CREATE_LIMIT: Final = 2.0
READ_LIMIT: Final = 5.0
PATIENCE: Final = 10.0

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A connection to JobService, and the ledgers that its last answers brought, by method."""

    client: AsyncClient
    ledgers: dict[str, BudgetLedger]

    def ledger(self, method: str) -> BudgetLedger:
        """Where the time of the last call of a method went. Raises DemoFailed when nobody said so."""
        if method not in self.ledgers:
            raise DemoFailed("ledger", f"the answer to {method} carries none")
        return self.ledgers[method]


@asynccontextmanager
async def calling(target: str) -> AsyncIterator[Caller]:
    """A caller with a connection of its own."""
    ledgers: dict[str, BudgetLedger] = {}
    client = AsyncClient.connect(target, terms=Terms(patience=PATIENCE), on_ledger=ledgers.__setitem__)
    async with client:
        yield Caller(client=client, ledgers=ledgers)


async def quote(caller: Caller, question: Question) -> Quoted:
    """The price of one model. Raises DemoFailed when it has none."""
    request = QuoteRequest(
        models=[question.model],
        messages=question.messages,
        max_output_token_count=question.max_tokens,
    )
    response = await caller.client.quote(request, timeout=QUOTE_LIMIT)
    line = response.lines[0]
    if line.status != QuoteLineStatus.QUOTE_LINE_STATUS_OK:
        raise DemoFailed("quote", f"{line.model} was not priced: {line.reason}")
    return Quoted(response=response, line=line, ledger=caller.ledger("Quote"))


async def create(
    caller: Caller, question: Question, quote_id: str, *, policy: UnknownOutcomePolicy.ValueType | None = None
) -> Created:
    """Create the job under a deadline of `CREATE_LIMIT` seconds, by the quote."""
    spec = JobSpec(
        model=question.model,
        messages=question.messages,
        max_output_token_count=question.max_tokens,
        unknown_outcome_policy=policy,
    )
    response = await caller.client.create(
        spec, key=f"demo-{uuid4()}", quote_id=quote_id, timeout=CREATE_LIMIT
    )
    return Created(response=response, ledger=caller.ledger("CreateJob"))


async def watch(target: str, job_id: str, transcript: Transcript, seen: Seen, *, budget: Budget) -> None:
    """Add the job's events to the transcript until the last one has come or `seen` has seen enough.

    On a connection of its own, after the transcript's cursor. Raises DemoFailed when the budget is over.
    """
    async with (
        calling(target) as caller,
        caller.client.watch(job_id, transcript=transcript, timeout=budget.remaining()) as events,
    ):
        try:
            async for _ in events:
                if seen(transcript):
                    return
        except DeadlineExceeded as error:
            raise DemoFailed(
                "watch", f"after {budget.initial:g} s the job is still {transcript.state_name}"
            ) from error


async def read(caller: Caller, job_id: str) -> Job:
    """The job with its attempts, its money and its result."""
    return await caller.client.get(job_id, attempts=True, content=True, timeout=READ_LIMIT)
