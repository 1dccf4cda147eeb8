"""JobService over gRPC."""

import asyncio
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import grpc
from typing_extensions import override

from budget.timer import Waits
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from hourglass.jobs.v1 import jobs_service_pb2_grpc as pb_grpc
from jobs_service.domain.limits import Limits
from jobs_service.rpc.answers import create_answer, generate_answer, quote_answer
from jobs_service.rpc.content import require_content, visible_kinds, without_error_texts
from jobs_service.rpc.read_decision import read_decision, read_resolution
from jobs_service.rpc.read_generate import read_generate
from jobs_service.rpc.requests import (
    read_caller,
    read_cancel,
    read_create,
    read_job_id,
    read_page,
    read_quote,
    read_watch,
)
from jobs_service.rpc.watch_answers import WatchAnswers
from jobs_service.service.cancelling import JobCanceller
from jobs_service.service.creation import JobCreator
from jobs_service.service.deciding import JobDecider
from jobs_service.service.generating import Generator
from jobs_service.service.listing import list_page
from jobs_service.service.quotes import Quoting
from jobs_service.service.waiting import JobWaiter
from jobs_service.service.watching import JobWatcher, WatchRequest
from jobs_store.reading import JobReader
from servicekit.call import call_of
from servicekit.context import ServedContext, served
from servicekit.errors import Resume
from wire.enums import to_wire
from wire.job import job_detail_message, job_message

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCases:
    """What the methods call."""

    quoting: Quoting
    creator: JobCreator
    reader: JobReader
    waiter: JobWaiter
    watcher: JobWatcher
    canceller: JobCanceller
    decider: JobDecider
    generator: Generator


class JobServicer(pb_grpc.JobServiceServicer):
    """The methods of the contract: each reads its request, calls one use case, and writes the answer.

    write_limit: seconds that a watcher may take for one message.
    """

    def __init__(self, use_cases: UseCases, limits: Limits, *, write_limit: float) -> None:
        self._use = use_cases
        self._limits = limits
        self._write_limit = write_limit
        self._watch_answers = WatchAnswers()

    @override
    async def Quote(self, request: pb.QuoteRequest, context: Context) -> pb.QuoteResponse:
        call = call_of(context)
        question = read_quote(request, self._limits)
        return quote_answer(await self._use.quoting.quote(question, read_caller(call), budget=call.budget))

    @override
    async def CreateJob(self, request: pb.CreateJobRequest, context: Context) -> pb.CreateJobResponse:
        call = call_of(context)
        create = read_create(request, self._limits, now=datetime.now(UTC))
        outcome = await self._use.creator.create(
            create, read_caller(call), admit=call.admit, budget=call.budget
        )
        return create_answer(outcome)

    @override
    async def GetJob(self, request: pb.GetJobRequest, context: Context) -> pb.GetJobResponse:
        call = call_of(context)
        require_content(call, asked=request.include_content)
        detail = await self._use.reader.get(
            read_caller(call).tenant,
            read_job_id(request.job_id),
            with_attempts=request.include_attempts,
            with_content=request.include_content,
            budget=call.budget,
        )
        job = job_detail_message(detail, with_attempts=request.include_attempts)
        return pb.GetJobResponse(job=without_error_texts(call, job))

    @override
    async def ListJobs(self, request: pb.ListJobsRequest, context: Context) -> pb.ListJobsResponse:
        call = call_of(context)
        tenant = read_caller(call).tenant
        page = await list_page(self._use.reader, tenant, read_page(request, tenant), budget=call.budget)
        return pb.ListJobsResponse(jobs=map(job_message, page.jobs), next_page_token=page.next_token)

    @override
    async def WaitJob(self, request: pb.WaitJobRequest, context: Context) -> pb.WaitJobResponse:
        call = call_of(context)
        require_content(call, asked=request.include_content)
        detail = await self._use.waiter.wait(
            read_caller(call).tenant,
            read_job_id(request.job_id),
            with_content=request.include_content,
            draining=call.draining,
            budget=call.budget,
        )
        return pb.WaitJobResponse(job=job_detail_message(detail))

    @override
    async def WatchJob(  # type: ignore[override]  # grpc.aio takes coroutines that write, too
        self, request: pb.WatchJobRequest, context: Context
    ) -> None:
        call = call_of(context)
        watch = read_watch(request, read_caller(call).tenant)
        watch = replace(watch, kinds=visible_kinds(call, watch.kinds))
        # In a task of its own: a message wakes all coroutines from the task down to the write, and those of
        # a request's way to its handler are twice as many as these. A cancel goes through to it.
        await asyncio.create_task(self._watch(watch, served(context)), name=f"watch {watch.job_id}")

    async def _watch(self, watch: WatchRequest, context: ServedContext) -> None:
        with closing(Waits.here()) as waits:
            # A watcher that does not read is let go, with its cursor; until then it holds one window.
            encoded = self._watch_answers.encoded
            send = context.writer(encoded, waits, limit=self._write_limit, late=Resume)
            await self._use.watcher.watch(watch, budget=context.call.budget, send=send)

    @override
    async def CancelJob(self, request: pb.CancelJobRequest, context: Context) -> pb.CancelJobResponse:
        call = call_of(context)
        asked = read_cancel(request)
        cancelled = await self._use.canceller.cancel(
            read_caller(call), asked.job_id, reason=asked.reason, budget=call.budget
        )
        return pb.CancelJobResponse(
            outcome=to_wire(pb.CancelOutcome, cancelled.outcome), job=job_message(cancelled.job)
        )

    @override
    async def RetryJob(self, request: pb.RetryJobRequest, context: Context) -> pb.RetryJobResponse:
        call = call_of(context)
        decided = await self._use.decider.retry(read_decision(request, read_caller(call)), budget=call.budget)
        return pb.RetryJobResponse(job=job_message(decided.job), replayed=decided.replayed)

    @override
    async def ResolveJob(self, request: pb.ResolveJobRequest, context: Context) -> pb.ResolveJobResponse:
        call = call_of(context)
        decision, resolution = read_resolution(request, read_caller(call))
        decided = await self._use.decider.resolve(decision, resolution, budget=call.budget)
        return pb.ResolveJobResponse(job=job_message(decided.job), replayed=decided.replayed)

    @override
    async def EraseJobContent(
        self, request: pb.EraseJobContentRequest, context: Context
    ) -> pb.EraseJobContentResponse:
        call = call_of(context)
        decided = await self._use.decider.erase(read_decision(request, read_caller(call)), budget=call.budget)
        return pb.EraseJobContentResponse(job=job_message(decided.job), replayed=decided.replayed)

    @override
    async def Generate(  # type: ignore[override]  # grpc.aio takes coroutines that write, too
        self, request: pb.GenerateRequest, context: Context
    ) -> None:
        call = call_of(context)
        spec = read_generate(request, self._limits, now=datetime.now(UTC))
        await self._use.generator.generate(
            spec,
            read_caller(call),
            send=lambda message: context.write(generate_answer(message)),
            cut=call.cut,
            budget=call.budget,
        )
