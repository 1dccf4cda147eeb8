"""Structured logs: one JSON object a line, or readable lines on a terminal. Passwords are taken out."""

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Literal, TextIO

import structlog
from opentelemetry import trace
from structlog.typing import Processor

from servicekit.redaction import redact

LogFormat = Literal["auto", "json", "console"]


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
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _Service(service),
        _trace_ids,
        structlog.processors.format_exc_info,
        _redacted,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    _route_libraries(
        stream, level, shared, _renderer(stream) if console else structlog.processors.JSONRenderer()
    )


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


def _redacted(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        event[key] = _clean(value)
    return event


def _clean(value: object) -> object:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: _clean(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(inner) for inner in value]
    return value
