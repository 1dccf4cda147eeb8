"""Structured logs: one JSON object a line, or readable lines on a terminal. Passwords are taken out.

Our own lines are written as they are rendered, past the machinery of `logging`, which would cost as much as
the rest of a line; those of libraries come through it.
"""

import json
import logging
import sys
from collections.abc import Callable, Mapping, MutableMapping
from functools import partial
from typing import Any, Final, Literal, TextIO

import orjson
import structlog
from opentelemetry import trace
from structlog.typing import Processor

from servicekit.redaction import redact, redact_rows

LogFormat = Literal["auto", "json", "console"]
_JSON_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATETIME


def configure_logs(
    service: str, *, level: str = "INFO", log_format: LogFormat = "auto", stream: TextIO | None = None
) -> None:
    """Sends our own logs and those of libraries to `stream` (stdout), once a process.

    `auto` is `console` on a terminal, else `json`.
    """
    stream = stream or sys.stdout
    console = log_format == "console" or (log_format == "auto" and stream.isatty())
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _Service(service),
        _trace_ids,
        _exceptions,
        _redacted,
    ]
    renderer = _renderer(stream) if console else structlog.processors.JSONRenderer(serializer=_as_json)
    structlog.configure(
        processors=[*shared, renderer],
        logger_factory=partial(_Lines, stream),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
    )
    foreign: list[Processor] = [structlog.stdlib.ExtraAdder(), *shared]
    _route_libraries(stream, level, foreign, renderer)


class _Lines:
    """What structlog takes for a logger: writes rendered lines, each with one call."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self.name = name
        self._stream = stream

    def write(self, line: str) -> None:
        """One line, whatever its level was."""
        self._stream.write(f"{line}\n")
        self._stream.flush()

    debug = info = warning = error = critical = write


def _route_libraries(stream: TextIO, level: str, shared: list[Processor], renderer: Processor) -> None:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.captureWarnings(capture=True)


def _renderer(stream: TextIO) -> Processor:
    return structlog.dev.ConsoleRenderer(
        colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
    )


class _Service:
    """Names the process in every line."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(
        self, _logger: Any, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        event.setdefault("service", self._name)
        return event


def _trace_ids(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = trace.format_trace_id(context.trace_id)
        event["span_id"] = trace.format_span_id(context.span_id)
    return event


def _exceptions(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    if "exc_info" in event:
        return structlog.processors.format_exc_info(logger, method, event)
    return event


def _redacted(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        # Numbers, and most texts, are as they were: nearly all of a line.
        if (kind := type(value)) is float or kind is int:
            continue
        if (cleaned := _clean(value)) is not value:
            event[key] = cleaned
    if isinstance(traceback := event.get("exception"), str):
        event["exception"] = redact_rows(traceback)
    return event


def _as_json(event: Mapping[str, Any], default: Callable[[Any], Any], **_options: Any) -> str:
    try:
        return orjson.dumps(event, default=default, option=_JSON_OPTIONS).decode()
    except TypeError:  # broken UTF-16, integers beyond 64 bits: no line is lost for that
        return json.dumps(event, default=default)


def _clean(value: object) -> object:
    if isinstance(value, str):
        return redact(value)
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, Mapping):
        return {key: _clean(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(inner) for inner in value]
    return value
