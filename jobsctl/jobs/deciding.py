"""Decisions about single jobs: cancel, retry, resolve, erase. Each is made once a request_id."""

from hourglass.jobs.v1.job_pb2 import Job
from hourglass.jobs.v1.jobs_service_pb2 import (
    CancelJobRequest,
    CancelOutcome,
    EraseJobContentRequest,
    EraseJobContentResponse,
    JobResolution,
    ResolveJobRequest,
    ResolveJobResponse,
    RetryJobRequest,
    RetryJobResponse,
)
from jobsctl.decision import Decision, remark_replay, request_id_of
from jobsctl.jobs.lines import state_name
from jobsctl.printer import Printer
from jobsctl.session import Session
from presentation.values import short_name

Decided = RetryJobResponse | ResolveJobResponse | EraseJobContentResponse


async def cancel(session: Session, job_id: str, *, reason: str) -> None:
    """Cancel a job; the answer says what that does."""
    request = CancelJobRequest(job_id=job_id, reason=reason)
    answer = await session.call("CancelJob", session.jobs.CancelJob, request)
    if session.printer.json:
        session.printer.message(answer)
        return
    session.printer.line(short_name(CancelOutcome, answer.outcome), _stands(answer.job))


async def retry(session: Session, job_id: str, decision: Decision) -> None:
    """Queue a FAILED job again."""
    request = RetryJobRequest(
        job_id=job_id, request_id=request_id_of(decision, session.printer), reason=decision.reason
    )
    answer = await session.call("RetryJob", session.jobs.RetryJob, request)
    _show(session.printer, answer)


async def resolve(session: Session, job_id: str, resolution: str, decision: Decision) -> None:
    """End a hold: another attempt, or failure."""
    request = ResolveJobRequest(
        job_id=job_id,
        resolution=resolution_of(resolution),
        request_id=request_id_of(decision, session.printer),
        reason=decision.reason,
    )
    answer = await session.call("ResolveJob", session.jobs.ResolveJob, request)
    _show(session.printer, answer)


async def erase(session: Session, job_id: str, decision: Decision) -> None:
    """Erase what was asked and answered."""
    request = EraseJobContentRequest(
        job_id=job_id, request_id=request_id_of(decision, session.printer), reason=decision.reason
    )
    answer = await session.call("EraseJobContent", session.jobs.EraseJobContent, request)
    _show(session.printer, answer)


def resolution_of(name: str) -> JobResolution.ValueType:
    """RETRY or FAIL."""
    return JobResolution.Value(f"JOB_RESOLUTION_{name.upper()}")


def _show(printer: Printer, answer: Decided) -> None:
    if printer.json:
        printer.message(answer)
    else:
        printer.line(_stands(answer.job))
    remark_replay(printer, replayed=answer.replayed)


def _stands(job: Job) -> str:
    return f"job {job.job_id} is {state_name(job.state)} ({job.state_cause})"
