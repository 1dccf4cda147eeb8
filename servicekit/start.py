"""How every process of ours begins: its settings, all problems at once; its logs; then its work."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from servicekit.command_line import overrides
from servicekit.lifecycle import run_process
from servicekit.logs import configure_logs
from servicekit.settings import ProcessSettings, SettingsError, load_all
from servicekit.telemetry import TelemetrySettings

WRONG_SETTINGS: Final = 2
"""The exit code of a process whose settings are wrong."""

Chosen = TypeVar("Chosen", bound=ProcessSettings)
_log = structlog.stdlib.get_logger("hourglass.start")


def start(
    module: str,
    name: str,
    kind: type[Chosen],
    run: Callable[[Chosen, TelemetrySettings, asyncio.Event], Coroutine[Any, Any, None]],
) -> int:
    """Runs a process until SIGTERM. The exit code: 0, 1 after a crash, 2 for wrong settings.

    Those are told on stderr, all at once, before anything was begun.

    module: what `python -m` was told. name: stands in the process's log lines.
    """
    try:
        settings, observed = load_all(kind, TelemetrySettings, **overrides(f"python -m {module}"))
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_SETTINGS
    configure_logs(name, level=settings.log_level, log_format=settings.log_format)
    _log.info("settings", **settings.redacted())
    if unknown := kind.unknown():
        _log.warning("variables that name no setting", nearest=unknown)
    return run_process(partial(run, settings, observed))
