"""Logs are one JSON object a line, and show no passwords."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from opentelemetry.sdk.trace import TracerProvider

from servicekit.logs import configure_logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    written = io.StringIO()
    yield written
    structlog.reset_defaults()
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[Any]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_our_lines_and_those_of_libraries_look_alike(stream: io.StringIO) -> None:
    configure_logs("worker", stream=stream)

    structlog.stdlib.get_logger("ours").info("claimed", jobs=3)
    logging.getLogger("theirs").warning("slow %s", "query")

    ours, theirs = lines(stream)
    assert ("claimed", 3, "info", "ours", "worker") == (
        ours["event"],
        ours["jobs"],
        ours["level"],
        ours["logger"],
        ours["service"],
    )
    assert ("slow query", "warning", "theirs", "worker") == (
        theirs["event"],
        theirs["level"],
        theirs["logger"],
        theirs["service"],
    )
    assert ours["timestamp"].endswith("Z")


def test_a_traceback_shows_the_error_and_no_password(stream: io.StringIO) -> None:
    configure_logs("worker", stream=stream)
    error = ValueError("cannot reach postgres://u:hunter2@db/jobs")

    structlog.stdlib.get_logger("ours").error("request", exc_info=error, nested={"dsn": ["p://u:hunter2@h"]})
    logging.getLogger("theirs").error("failed", exc_info=error)

    assert "hunter2" not in stream.getvalue()
    assert all("ValueError" in line["exception"] for line in lines(stream))


def test_levels_below_the_chosen_one_are_left_out(stream: io.StringIO) -> None:
    configure_logs("worker", level="WARNING", stream=stream)

    structlog.stdlib.get_logger("ours").info("chatter")

    assert "" == stream.getvalue()


def test_a_line_inside_a_span_names_its_trace(stream: io.StringIO) -> None:
    configure_logs("worker", stream=stream)
    provider = TracerProvider(shutdown_on_exit=False)

    with provider.get_tracer("t").start_as_current_span("s") as span:
        structlog.stdlib.get_logger("ours").info("inside")

    (line,) = lines(stream)
    assert f"{span.get_span_context().trace_id:032x}" == line["trace_id"]


def test_a_terminal_gets_lines_for_people(stream: io.StringIO) -> None:
    configure_logs("worker", log_format="console", stream=stream)

    structlog.stdlib.get_logger("ours").error("failed", exc_info=ValueError("x postgres://u:hunter2@db"))

    assert "failed" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()
    assert not stream.getvalue().startswith("{")


@pytest.mark.parametrize(
    "words",
    [
        "new row violates a check\nDETAIL:  Failing row contains (7, hunter2,\nhunter2).",
        "null value\nDETAIL:  Failing row contains (hunter2).\nHINT:  none",
        "invalid input for query argument $3: 'hunter2' (expected int)",
    ],
)
def test_a_traceback_shows_no_value_that_the_database_repeats(stream: io.StringIO, words: str) -> None:
    configure_logs("worker", stream=stream)
    error = LookupError("row")
    error.__cause__ = ValueError(words)
    structlog.stdlib.get_logger("ours").error("request", exc_info=error)

    (line,) = lines(stream)
    assert "hunter2" not in line["exception"]
    assert "LookupError: row" in line["exception"]


@pytest.mark.parametrize("value", ["half a pair: \ud83d", 1 << 70])
def test_no_line_is_lost_for_a_value_that_strict_json_refuses(stream: io.StringIO, value: object) -> None:
    configure_logs("worker", stream=stream)

    structlog.stdlib.get_logger("ours").info("claimed", value=value)

    (line,) = lines(stream)
    assert value == line["value"]
