"""The messages of WatchJob are made once for all who watch."""

from datetime import UTC, datetime

from hourglass.jobs.v1.jobs_service_pb2 import WatchJobResponse
from jobs_service.rpc.watch_answers import KEPT, WatchAnswers
from jobs_service.service.watching import Heartbeat
from jobs_store.events import Event, EventKind
from jobs_store.identifiers import Sequence


def event(number: int, text: str) -> Event:
    return Event(
        sequence=Sequence((1 << 32) + number),
        kind=EventKind.TOKEN_DELTA,
        time=datetime.now(UTC),
        attempt_number=1,
        text=text,
        attributes={"offset": 0, "token_count": 1},
    )


def text_of(raw: bytes) -> str:
    return WatchJobResponse.FromString(raw).event.token_delta.text


def test_every_event_has_its_own_message() -> None:
    answers = WatchAnswers()
    events = [event(number, f"text {number}") for number in range(5)]
    for _ in range(2):
        assert [one.text for one in events] == [text_of(answers.encoded(one)) for one in events]


def test_the_message_of_an_event_is_made_once() -> None:
    answers, one = WatchAnswers(), event(1, "text")
    assert answers.encoded(one) is answers.encoded(one)


def test_no_more_than_a_bounded_number_is_kept_and_what_is_gone_is_made_again() -> None:
    answers, first = WatchAnswers(), event(0, "first")
    before = answers.encoded(first)
    for number in range(1, KEPT + 1):
        answers.encoded(event(number, "later"))
    again = answers.encoded(first)
    assert again is not before
    assert again == before


def test_a_heartbeat_is_of_its_moment() -> None:
    answers = WatchAnswers()
    message = WatchJobResponse.FromString(answers.encoded(Heartbeat(sequence=Sequence(7))))
    assert 7 == message.heartbeat.sequence
    assert message.heartbeat.HasField("server_time")
