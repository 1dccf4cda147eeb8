"""Calls of the blocking client: one deadline, tries by the rules, one key, typed errors."""

from typing import Any

import pytest
from grpc import StatusCode

from budget.retry import RETRY_HEADER, Backoff, Retries, TokenBucket
from hourglass.budget.v1.ledger_pb2 import BudgetLedger
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from hourglass.jobs.v1.job_pb2 import Job, JobSpec, JobState
from hourglass_client import (
    AlreadyExists,
    DeadlineExceeded,
    HourglassError,
    InternalError,
    InvalidRequest,
    NotFound,
    NotPermitted,
    OutOfRange,
    PreconditionFailed,
    ResourceExhausted,
    Unavailable,
)
from tests.unit.client.played_server import PATIENT, PlayedServer, answer, refuse

SPEC = JobSpec(model="simulated-fast")
CREATED = pb.CreateJobResponse(job=Job(job_id="j"))
UNAVAILABLE = StatusCode.UNAVAILABLE


@pytest.fixture
def server() -> PlayedServer:
    return PlayedServer()


def failed(caller: Any, kind: type[HourglassError]) -> Any:
    with pytest.raises(kind) as caught:
        caller.result(PATIENT)
    assert kind is type(caught.value)
    return caught.value


def test_a_create_that_nobody_answered_is_sent_again_with_its_key_within_one_deadline(
    server: PlayedServer,
) -> None:
    caller = server.caller(lambda: server.client.create(SPEC, timeout=2.0))
    metadata, first, rpc = server.unary("CreateJob")
    server.pass_time(0.5)
    refuse(rpc, UNAVAILABLE)
    pause = server.pause()
    again, second, rpc = server.unary("CreateJob")
    answer(rpc, CREATED)

    assert "j" == caller.result(PATIENT).job.job_id
    assert first.idempotency_key == second.idempotency_key != ""
    assert "demo" == metadata["x-tenant-id"] == again["x-tenant-id"]
    assert (None, "1") == (metadata.get(RETRY_HEADER), again[RETRY_HEADER])
    assert 0 < pause <= 0.1
    whole, rest = server.timeouts
    assert whole is not None
    assert rest is not None
    assert 1.98 <= whole < 2.0
    assert rest <= 1.5 - pause


def test_a_key_of_the_callers_own_is_sent_as_it_is_and_is_on_the_error(server: PlayedServer) -> None:
    caller = server.caller(lambda: server.client.create(SPEC, key="mine", timeout=1.0))
    _, request, _ = server.unary("CreateJob")
    server.pass_time(1.0)
    error = failed(caller, DeadlineExceeded)
    assert ("mine", "mine") == (request.idempotency_key, error.key)


def test_a_create_whose_time_is_over_names_the_key_that_was_made_for_it(server: PlayedServer) -> None:
    caller = server.caller(lambda: server.client.create(SPEC, timeout=1.0))
    _, request, _ = server.unary("CreateJob")
    server.pass_time(1.0)
    assert request.idempotency_key == failed(caller, DeadlineExceeded).key


def test_tries_and_waits_together_never_take_longer_than_the_deadline() -> None:
    server = PlayedServer(retries=Retries(backoff=Backoff(base=0.05, cap=0.05)))
    began = server.time.time()
    caller = server.caller(lambda: server.client.create(SPEC, timeout=1.0))
    for _ in range(3):
        _, _, rpc = server.unary("CreateJob")
        server.pass_time(0.25)
        refuse(rpc, UNAVAILABLE)
        server.pause()
    server.unary("CreateJob")
    assert server.timeouts[-1] is not None
    assert server.time.time() + server.timeouts[-1] <= began + 1.0
    server.pass_time(server.timeouts[-1])
    failed(caller, DeadlineExceeded)


def test_no_try_is_begun_that_could_not_finish(server: PlayedServer) -> None:
    caller = server.caller(lambda: server.client.get("j", timeout=1.0))
    _, _, rpc = server.unary("GetJob")
    server.pass_time(0.97)
    refuse(rpc, UNAVAILABLE)
    failed(caller, Unavailable)
    assert 1 == len(server.timeouts)


def test_the_servers_pushback_is_the_wait(server: PlayedServer) -> None:
    caller = server.caller(lambda: server.client.get("j", timeout=5.0))
    _, _, rpc = server.unary("GetJob")
    refuse(rpc, StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", retry_after=3.0)
    assert 3.0 == server.pause()
    _, _, rpc = server.unary("GetJob")
    answer(rpc, pb.GetJobResponse(job=Job(job_id="j")))
    assert "j" == caller.result(PATIENT).job_id


def test_a_pushback_beyond_the_deadline_ends_the_call_at_once(server: PlayedServer) -> None:
    caller = server.caller(lambda: server.client.get("j", timeout=2.0))
    _, _, rpc = server.unary("GetJob")
    refuse(rpc, StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", retry_after=3.0)
    error = failed(caller, ResourceExhausted)
    assert ("OVERLOADED", 3.0) == (error.reason, error.retry_after)
    assert server.pauses.empty()


def test_a_server_that_wants_no_retry_gets_none(server: PlayedServer) -> None:
    caller = server.caller(lambda: server.client.get("j", timeout=2.0))
    _, _, rpc = server.unary("GetJob")
    rpc.terminate(None, (("grpc-retry-pushback-ms", "-1"),), UNAVAILABLE, "no")
    failed(caller, Unavailable)
    assert 1 == len(server.timeouts)


def test_retries_stop_when_the_clients_bucket_is_empty() -> None:
    bucket = TokenBucket(capacity=2.0)
    server = PlayedServer(retries=Retries(bucket=bucket, backoff=Backoff()))
    caller = server.caller(lambda: server.client.get("j", timeout=5.0))
    for _ in range(2):
        refuse(server.unary("GetJob")[2], UNAVAILABLE)
        server.pause()
    refuse(server.unary("GetJob")[2], UNAVAILABLE)
    failed(caller, Unavailable)
    caller = server.caller(lambda: server.client.get("j", timeout=5.0))
    answer(server.unary("GetJob")[2], pb.GetJobResponse())
    caller.result(PATIENT)
    assert pytest.approx(0.2) == bucket.tokens


def test_a_lost_race_that_changed_nothing_is_run_again(server: PlayedServer) -> None:
    caller = server.caller(lambda: server.client.cancel("j"))
    refuse(server.unary("CancelJob")[2], StatusCode.ABORTED, "DATABASE_CONFLICT")
    server.pause()
    answer(server.unary("CancelJob")[2], pb.CancelJobResponse(outcome=pb.CANCEL_OUTCOME_CANCELLED))
    assert pb.CANCEL_OUTCOME_CANCELLED == caller.result(PATIENT).outcome


def test_decisions_keep_their_request_id_over_their_tries(server: PlayedServer) -> None:
    caller = server.caller(lambda: server.client.retry("j", reason="again"))
    _, first, rpc = server.unary("RetryJob")
    refuse(rpc, UNAVAILABLE)
    server.pause()
    _, second, rpc = server.unary("RetryJob")
    answer(rpc, pb.RetryJobResponse(job=Job(job_id="j")))
    caller.result(PATIENT)
    assert first.request_id == second.request_id != ""

    resolve = server.caller(
        lambda: server.client.resolve("j", pb.JOB_RESOLUTION_FAIL, reason="enough", request_id="mine")
    )
    _, request, rpc = server.unary("ResolveJob")
    answer(rpc, pb.ResolveJobResponse())
    resolve.result(PATIENT)
    assert ("mine", pb.JOB_RESOLUTION_FAIL) == (request.request_id, request.resolution)


@pytest.mark.parametrize(
    ("method", "seconds"),
    [("Quote", 5.0), ("CreateJob", 10.0), ("GetJob", 5.0), ("CancelJob", 5.0), ("RetryJob", 5.0)],
)
def test_a_call_without_a_timeout_takes_what_its_method_takes_at_most(
    server: PlayedServer, method: str, seconds: float
) -> None:
    client = server.client
    calls = {
        "Quote": lambda: client.quote(pb.QuoteRequest(models=["m"])),
        "CreateJob": lambda: client.create(SPEC),
        "GetJob": lambda: client.get("j"),
        "CancelJob": lambda: client.cancel("j"),
        "RetryJob": lambda: client.retry("j", reason="r"),
    }
    caller = server.caller(calls[method])
    server.unary(method)
    server.pass_time(seconds)
    failed(caller, DeadlineExceeded)
    (timeout,) = server.timeouts
    assert timeout is not None
    assert seconds - 0.11 <= timeout < seconds


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("inf"), float("nan")])
def test_a_timeout_that_is_none_is_refused_before_anything_is_sent(
    server: PlayedServer, timeout: float
) -> None:
    with pytest.raises(ValueError, match="timeout: "):
        server.client.get("j", timeout=timeout)
    assert [] == server.timeouts


FAMILIES = [
    (StatusCode.INVALID_ARGUMENT, InvalidRequest),
    (StatusCode.NOT_FOUND, NotFound),
    (StatusCode.ALREADY_EXISTS, AlreadyExists),
    (StatusCode.FAILED_PRECONDITION, PreconditionFailed),
    (StatusCode.RESOURCE_EXHAUSTED, ResourceExhausted),
    (StatusCode.OUT_OF_RANGE, OutOfRange),
    (StatusCode.UNAUTHENTICATED, NotPermitted),
    (StatusCode.PERMISSION_DENIED, NotPermitted),
    (StatusCode.DEADLINE_EXCEEDED, DeadlineExceeded),
    (StatusCode.INTERNAL, InternalError),
    (StatusCode.UNIMPLEMENTED, InternalError),
]


@pytest.mark.parametrize(("code", "kind"), FAMILIES)
def test_every_code_has_its_family_and_is_not_tried_again(
    server: PlayedServer, code: StatusCode, kind: type[HourglassError]
) -> None:
    caller = server.caller(lambda: server.client.get("j"))
    refuse(server.unary("GetJob")[2], code, "SOME_REASON", model="m")
    error = failed(caller, kind)
    assert (code, "SOME_REASON", {"model": "m"}, "no") == (
        error.code,
        error.reason,
        error.metadata,
        error.message,
    )
    assert 1 == len(server.timeouts)


def test_everything_that_is_wrong_with_a_request_is_on_the_error(server: PlayedServer) -> None:
    caller = server.caller(lambda: server.client.create(SPEC))
    wrong = [("spec.messages", "is empty"), ("spec.priority", "is above 100")]
    refuse(server.unary("CreateJob")[2], StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT", fields=wrong)
    error = failed(caller, InvalidRequest)
    assert wrong == [(one.field, one.description) for one in error.violations]
    assert "INVALID_ARGUMENT: no; spec.messages: is empty; spec.priority: is above 100" == str(error)


def test_an_error_of_grpcs_own_has_its_code_for_a_reason(server: PlayedServer) -> None:
    caller = server.caller(lambda: server.client.get("j"))
    refuse(server.unary("GetJob")[2], StatusCode.UNKNOWN)
    assert "UNKNOWN" == failed(caller, InternalError).reason


def test_good_and_bad_answers_tell_where_the_time_went(server: PlayedServer) -> None:
    ledger = BudgetLedger(method="/hourglass.jobs.v1.JobService/GetJob")
    trailers = (("budget-ledger-bin", ledger.SerializeToString()),)
    caller = server.caller(lambda: server.client.get("j"))
    answer(server.unary("GetJob")[2], pb.GetJobResponse(), trailers)
    caller.result(PATIENT)
    caller = server.caller(lambda: server.client.get("j"))
    server.unary("GetJob")[2].terminate(None, trailers, StatusCode.INTERNAL, "oh")
    assert ledger == failed(caller, InternalError).ledger
    assert [("GetJob", ledger), ("GetJob", ledger)] == server.ledgers


def test_a_wait_that_is_longer_than_one_question_asks_again(server: PlayedServer) -> None:
    caller = server.caller(lambda: server.client.wait("j", timeout=700.0))
    for _ in range(2):
        _, _, rpc = server.unary("WaitJob")
        server.pass_time(299.0)
        answer(rpc, pb.WaitJobResponse(job=Job(state=JobState.JOB_STATE_RUNNING)))
        server.pause()
    _, _, rpc = server.unary("WaitJob")
    answer(rpc, pb.WaitJobResponse(job=Job(state=JobState.JOB_STATE_FAILED)))
    assert JobState.JOB_STATE_FAILED == caller.result(PATIENT).state
    first, second, third = (timeout or 0.0 for timeout in server.timeouts)
    assert 299.0 <= first == second <= 300.0
    assert third <= 700.0 - 2 * 299.0


def test_a_question_that_was_not_answered_in_its_time_is_not_the_end_of_the_wait(
    server: PlayedServer,
) -> None:
    caller = server.caller(lambda: server.client.wait("j"))
    _, _, rpc = server.unary("WaitJob")
    answer(rpc, pb.WaitJobResponse(job=Job(state=JobState.JOB_STATE_RUNNING)))
    server.pause()
    server.unary("WaitJob")
    server.pass_time(300.0)
    server.pause()
    _, _, rpc = server.unary("WaitJob")
    answer(rpc, pb.WaitJobResponse(job=Job(state=JobState.JOB_STATE_SUCCEEDED)))
    assert JobState.JOB_STATE_SUCCEEDED == caller.result(PATIENT).state


def test_a_wait_whose_time_is_over_answers_the_job_as_it_was_told_last(server: PlayedServer) -> None:
    caller = server.caller(lambda: server.client.wait("j", timeout=1.0))
    _, _, rpc = server.unary("WaitJob")
    server.pass_time(0.5)
    answer(rpc, pb.WaitJobResponse(job=Job(state=JobState.JOB_STATE_QUEUED)))
    server.pause()
    server.unary("WaitJob")
    server.pass_time(1.0)
    assert JobState.JOB_STATE_QUEUED == caller.result(PATIENT).state


def test_a_wait_that_nobody_ever_answered_is_out_of_time(server: PlayedServer) -> None:
    caller = server.caller(lambda: server.client.wait("j", timeout=1.0))
    server.unary("WaitJob")
    server.pass_time(1.0)
    failed(caller, DeadlineExceeded)


def test_a_wait_bears_an_outage_that_is_longer_than_what_a_call_bears() -> None:
    retries = Retries(bucket=TokenBucket(capacity=1.0), backoff=Backoff(base=2.0, cap=2.0))
    server = PlayedServer(retries=retries)
    caller = server.caller(lambda: server.client.wait("j"))
    for _ in range(12):
        refuse(server.unary("WaitJob")[2], UNAVAILABLE)
        server.pause()
    answer(server.unary("WaitJob")[2], pb.WaitJobResponse(job=Job(state=JobState.JOB_STATE_SUCCEEDED)))
    assert JobState.JOB_STATE_SUCCEEDED == caller.result(PATIENT).state
