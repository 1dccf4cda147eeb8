"""A run's log in memory, and what its readers get of it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from jobs_store.events import EventKind, NewEvent
from jobs_store.identifiers import START, sequence
from tests.unit.worker.claimed import MOMENT, claimed
from worker.event_log import EventLog, LogEnd, LogLimits, TooFarBack
from worker.progress import Progress

SENT = NewEvent(kind=EventKind.ATTEMPT_SENT, attributes={"provider": "p", "provider_model": "m"})


def _log(**limits: int) -> EventLog:
    log = EventLog(claimed(), worker_id="w", limits=LogLimits(**limits))
    log.started(SENT, time=MOMENT)
    return log


def _text(text: str) -> NewEvent:
    return NewEvent(kind=EventKind.TOKEN_DELTA, text=text, attributes={"offset": 0, "token_count": 1})


def test_a_log_begins_with_what_claim_and_start_step_wrote() -> None:
    log = _log()
    events = log.read(1, most=10)
    assert [1, 2, 3] == [event.sequence - sequence(2, 0) for event in events]
    assert [EventKind.STATE_CHANGED, EventKind.ATTEMPT_STARTED, EventKind.ATTEMPT_SENT] == [
        event.kind for event in events
    ]
    assert [0, 1, 1] == [event.attempt_number for event in events]
    assert sequence(1, 1) == events[0].attributes["last_durable_sequence"]
    assert not log.has_unflushed


def test_what_is_flushed_leaves_the_tail_and_nothing_else_does() -> None:
    log = _log()
    for text in "abc":
        log.append(_text(text))
    assert (4, 3) == (log.tail().first_event, len(log.tail().events))
    assert 2 == len(log.unflushed(most=2).events)
    log.flushed(5)
    assert (6, ["c"]) == (log.tail().first_event, [event.text for event in log.tail().events])
    log.flushed(4)
    assert 6 == log.tail().first_event


def test_only_durable_events_are_trimmed() -> None:
    log = _log(events=4)
    for number in range(20):
        log.append(_text(str(number)))
    assert 1 == log.read(1, most=1)[0].sequence - sequence(2, 0)
    log.flushed(20)
    with pytest.raises(TooFarBack):
        log.read(19, most=1)
    assert ["16", "17", "18", "19"] == [event.text for event in log.read(20, most=10)]
    log.flushed(23)
    log.append(_text("20"))
    assert ["16", "17", "18", "19", "20"] == [event.text for event in log.read(20, most=10)]


def test_the_size_of_what_is_held_is_bounded_too() -> None:
    log = _log(size=1000)
    for _ in range(10):
        log.append(_text("x" * 100))
    log.flushed(log.last)
    with pytest.raises(TooFarBack):
        log.read(4, most=1)
    assert 1 == len(log.read(log.last, most=5))


@pytest.mark.parametrize(
    ("cursor", "place"),
    [(sequence(1, 1), 1), (sequence(1, 99), 1), (sequence(2, 0), 1), (sequence(2, 3), 4)],
)
def test_a_cursor_goes_on_behind_itself_or_at_the_first_event_of_the_run(cursor: int, place: int) -> None:
    assert place == _log().place_of(sequence(0, cursor))


def test_a_cursor_before_the_last_durable_event_is_too_far_back() -> None:
    with pytest.raises(TooFarBack):
        _log().place_of(START)


async def test_readers_wake_for_an_event_and_for_the_end() -> None:
    log = _log()
    waiting = asyncio.create_task(log.wait_beyond(4, seconds=5.0))
    await asyncio.sleep(0)
    log.append(_text("a"))
    assert await waiting
    assert not await log.wait_beyond(5, seconds=0.01)
    log.close(LogEnd.NOT_OWNER)
    assert await log.wait_beyond(5, seconds=5.0)


def test_the_first_end_counts() -> None:
    log = _log()
    log.close(LogEnd.NOT_OWNER)
    log.complete(log.place_events([SENT], time=MOMENT))
    assert (LogEnd.NOT_OWNER, 3) == (log.end, log.last)


async def test_the_first_chunk_goes_at_once_and_the_next_ones_are_joined() -> None:
    log, written = _log(), []
    progress = Progress(log, window=0.05, written=lambda: written.append(log.last))
    for chunk in ("Hé", "llo ", "th", "ere"):
        progress.chunk(chunk)
    assert ["Hé"] == [event.text for event in log.read(4, most=10)]
    assert await log.wait_beyond(5, seconds=5.0)
    deltas = log.read(4, most=10)
    assert ["Hé", "llo there"] == [event.text for event in deltas]
    assert [(0, 1), (2, 3)] == [
        (event.attributes["offset"], event.attributes["token_count"]) for event in deltas
    ]
    assert [4, 5] == written
    assert ("Héllo there", 4) == (progress.delivered.text, progress.delivered.tokens)


async def test_what_waits_in_the_window_is_delivered_when_the_run_ends() -> None:
    log = _log()
    progress = Progress(log, window=60.0, written=lambda: None)
    progress.chunk("a")
    progress.chunk("b")
    assert 1 == progress.delivered.tokens
    progress.write_out()
    assert ("ab", 2) == (progress.delivered.text, progress.delivered.tokens)


@pytest.mark.scenario("O5")
def test_the_times_of_a_run_go_on_from_its_claim_by_the_databases_clock() -> None:
    """Whatever this machine's own clock says."""
    log = EventLog(claimed(), worker_id="w", limits=LogLimits())
    assert MOMENT <= log.now() <= log.now() < MOMENT + timedelta(seconds=5)
