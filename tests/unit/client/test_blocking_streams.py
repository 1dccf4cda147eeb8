"""Streams of the blocking client: read on by cursor, within one deadline, keeping only what stands."""

from functools import partial
from typing import Any

import pytest
from grpc import StatusCode

from hourglass.jobs.v1 import jobs_service_pb2 as pb
from hourglass.jobs.v1.event_pb2 import JobEvent, JobEventKind, TokenDelta
from hourglass_client import (
    BrokenStream,
    DeadlineExceeded,
    HourglassError,
    OutOfRange,
    Transcript,
    Unavailable,
    Watch,
)
from tests.unit.client.events import QUEUED, RUNNING, SUCCEEDED, at, attempt, delta, heartbeat, send, state
from tests.unit.client.played_server import PATIENT, PlayedServer, break_off, end, taken, until

DELTA = JobEventKind.JOB_EVENT_KIND_TOKEN_DELTA
STATE = JobEventKind.JOB_EVENT_KIND_STATE_CHANGED


@pytest.fixture
def server() -> PlayedServer:
    return PlayedServer()


def wait_for_cursor(watch: Watch, cursor: int) -> None:
    """What was not read when a stream breaks is lost, here as in real life."""
    until(lambda: watch.transcript.cursor >= cursor)


def read(watch: Watch) -> list[JobEvent]:
    with watch:
        return list(watch)


def failed(caller: Any, kind: type[HourglassError]) -> Any:
    with pytest.raises(kind) as caught:
        caller.result(PATIENT)
    return caught.value


@pytest.mark.parametrize("reason", ["", "RESUME"])
def test_a_stream_that_ends_early_is_gone_on_with_after_the_last_event(
    server: PlayedServer, reason: str
) -> None:
    watch = server.client.watch("j")
    caller = server.caller(lambda: read(watch))
    request, rpc = server.stream()
    send(rpc, state(2, RUNNING), attempt(2, 1), delta(2, 3, "The ", offset=0))
    heartbeat(rpc)
    end_of_first = at(2, 3)
    wait_for_cursor(watch, end_of_first)
    break_off(rpc, reason=reason)
    assert 0 < server.pause() <= 0.1
    again, rpc = server.stream()
    send(rpc, delta(2, 4, "sky", offset=4), state(2, SUCCEEDED, n=5))
    end(rpc)

    events = caller.result(PATIENT)
    assert [at(2, n) for n in (1, 2, 3, 4, 5)] == [event.sequence for event in events]
    assert ("The sky", True) == (watch.text, watch.transcript.ended)
    assert (0, end_of_first) == (request.after_sequence, again.after_sequence)


def test_what_died_with_a_worker_is_dropped_when_the_next_epoch_says_so(server: PlayedServer) -> None:
    watch = server.client.watch("j")
    caller = server.caller(lambda: read(watch))
    _, rpc = server.stream()
    send(rpc, state(2, RUNNING), attempt(2, 1), delta(2, 3, "kept", offset=0), delta(2, 4, " lost", offset=4))
    wait_for_cursor(watch, at(2, 4))
    assert "kept lost" == watch.text
    break_off(rpc)
    server.pause()
    again, rpc = server.stream()
    send(rpc, state(3, QUEUED, durable=at(2, 3)))
    wait_for_cursor(watch, at(3, 1))
    assert "kept" == watch.text
    send(rpc, state(4, RUNNING, durable=at(3, 1)), attempt(4, 2), delta(4, 3, "anew", offset=0))
    send(rpc, state(4, SUCCEEDED, n=4))
    end(rpc)
    caller.result(PATIENT)
    assert at(2, 4) == again.after_sequence
    assert ("anew", 2) == (watch.text, watch.transcript.attempt)
    assert at(2, 4) not in [event.sequence for event in watch.transcript.events]


def test_all_streams_of_a_watch_share_one_deadline(server: PlayedServer) -> None:
    caller = server.caller(lambda: read(server.client.watch("j", timeout=10.0)))
    _, rpc = server.stream()
    server.pass_time(6.0)
    break_off(rpc)
    server.pause()
    server.stream()
    server.pass_time(4.0)
    failed(caller, DeadlineExceeded)
    first, second = (timeout or 0.0 for timeout in server.timeouts)
    assert 9.9 <= first < 10.0
    assert 3.8 <= second < 4.0


def test_a_watch_that_is_nearly_over_is_not_gone_on_with(server: PlayedServer) -> None:
    caller = server.caller(lambda: read(server.client.watch("j", timeout=10.0)))
    _, rpc = server.stream()
    server.pass_time(9.97)
    break_off(rpc, reason="RESUME")
    error = failed(caller, DeadlineExceeded)
    assert "BUDGET_EXHAUSTED" == error.reason
    assert "RESUME" in error.message


def test_a_watch_without_a_timeout_has_no_deadline(server: PlayedServer) -> None:
    caller = server.caller(lambda: read(server.client.watch("j")))
    _, rpc = server.stream()
    server.pass_time(100_000.0)
    send(rpc, state(2, SUCCEEDED))
    end(rpc)
    assert 1 == len(caller.result(PATIENT))
    assert [None] == server.timeouts


def test_an_outage_that_outlasts_the_patience_is_told(server: PlayedServer) -> None:
    caller = server.caller(lambda: read(server.client.watch("j")))
    waited = 0.0
    while waited <= 30.0:
        break_off(server.stream()[1])
        waited += server.pause()
    break_off(server.stream()[1])
    failed(caller, Unavailable)
    assert waited <= 32.0


def test_a_message_renews_the_patience_and_shortens_the_pauses(server: PlayedServer) -> None:
    caller = server.caller(lambda: read(server.client.watch("j")))
    for _ in range(5):
        waited = 0.0
        while waited <= 20.0:
            break_off(server.stream()[1])
            waited += server.pause()
        _, rpc = server.stream()
        heartbeat(rpc)
        until(partial(taken, rpc))
        break_off(rpc)
        assert server.pause() <= 0.1
    _, rpc = server.stream()
    end(rpc)
    caller.result(PATIENT)


def test_a_server_that_asks_to_resume_is_asked_again_for_as_long_as_it_does(server: PlayedServer) -> None:
    caller = server.caller(lambda: read(server.client.watch("j")))
    waited = 0.0
    while waited <= 60.0:
        break_off(server.stream()[1], reason="RESUME")
        waited += server.pause()
    end(server.stream()[1])
    caller.result(PATIENT)


def test_the_servers_pushback_is_the_pause_of_a_watch(server: PlayedServer) -> None:
    caller = server.caller(lambda: read(server.client.watch("j")))
    break_off(server.stream()[1], StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", retry_after=4.0)
    assert 4.0 == server.pause()
    end(server.stream()[1])
    caller.result(PATIENT)


def test_an_error_that_does_not_pass_ends_the_watch_at_once(server: PlayedServer) -> None:
    caller = server.caller(lambda: read(server.client.watch("j")))
    break_off(server.stream()[1], StatusCode.OUT_OF_RANGE, "CURSOR_OUT_OF_RANGE", last_sequence="7")
    error = failed(caller, OutOfRange)
    assert ("CURSOR_OUT_OF_RANGE", {"last_sequence": "7"}) == (error.reason, error.metadata)


def test_whoever_is_told_of_a_broken_stream_may_end_the_watch(server: PlayedServer) -> None:
    told: list[HourglassError] = []

    def enough(error: HourglassError) -> None:
        told.append(error)
        raise KeyError

    caller = server.caller(lambda: read(server.client.watch("j", on_break=enough)))
    break_off(server.stream()[1], reason="RESUME")
    with pytest.raises(KeyError):
        caller.result(PATIENT)
    assert ["RESUME"] == [error.reason for error in told]


def test_leaving_a_watch_cancels_its_stream_and_nothing_is_tried_after_that(server: PlayedServer) -> None:
    def leave_early() -> list[JobEvent]:
        with server.client.watch("j") as watch:
            next(watch)
        return list(watch)

    caller = server.caller(leave_early)
    _, rpc = server.stream()
    send(rpc, state(2, RUNNING))
    rpc.cancelled()
    assert [] == caller.result(PATIENT)
    assert 1 == len(server.timeouts)


def test_a_watch_goes_on_after_what_a_transcript_holds(server: PlayedServer) -> None:
    transcript = Transcript.of([state(2, RUNNING), attempt(2, 1), delta(2, 3, "a", offset=0)])
    caller = server.caller(lambda: read(server.client.watch("j", transcript=transcript)))
    request, rpc = server.stream()
    send(rpc, delta(2, 4, "b", offset=1), state(2, SUCCEEDED, n=5))
    end(rpc)
    caller.result(PATIENT)
    assert (at(2, 3), "ab") == (request.after_sequence, transcript.text)


def test_a_filter_with_deltas_shows_its_kinds_and_still_knows_what_stands(server: PlayedServer) -> None:
    watch = server.client.watch("j", kinds=[DELTA])
    caller = server.caller(lambda: read(watch))
    request, rpc = server.stream()
    send(rpc, state(2, RUNNING), attempt(2, 1), delta(2, 3, "old", offset=0))
    send(rpc, state(3, QUEUED, durable=at(2, 2)), state(4, RUNNING, durable=at(3, 1)), attempt(4, 2))
    send(rpc, delta(4, 3, "new", offset=0), state(4, SUCCEEDED, n=4))
    end(rpc)
    events = caller.result(PATIENT)
    assert [at(2, 3), at(4, 3), at(4, 4)] == [event.sequence for event in events]
    assert ([], "new") == (list(request.kinds), watch.text)


def test_a_filter_without_deltas_is_the_servers_work(server: PlayedServer) -> None:
    caller = server.caller(lambda: read(server.client.watch("j", kinds=[STATE])))
    request, rpc = server.stream()
    end(rpc)
    caller.result(PATIENT)
    assert [STATE] == list(request.kinds)


def test_a_stream_that_repeats_itself_is_not_believed(server: PlayedServer) -> None:
    caller = server.caller(lambda: read(server.client.watch("j")))
    _, rpc = server.stream()
    send(rpc, state(2, RUNNING), state(2, RUNNING))
    failed(caller, BrokenStream)


def test_a_generated_answer_is_never_asked_for_twice(server: PlayedServer) -> None:
    def generate() -> list[pb.GenerateResponse]:
        with server.client.generate(pb.GenerateRequest(model="m"), timeout=3.0) as messages:
            return list(messages)

    caller = server.caller(generate)
    _, rpc = server.stream("Generate")
    rpc.send_response(pb.GenerateResponse(token_delta=TokenDelta(text="a")))
    break_off(rpc, reason="DRAINING", retry_after=0.1)
    failed(caller, Unavailable)
    (timeout,) = server.timeouts
    assert timeout is not None
    assert 2.9 <= timeout < 3.0
    assert server.pauses.empty()
