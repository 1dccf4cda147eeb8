"""A worker process of a bench: the real one, but for its slots and, unless it gets a URL, its provider."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from bench.budget.children import answer_parent
from bench.budget.profiling import Profiling
from bench.jobs.instant import InstantProvider
from servicekit.lifecycle import collect_rarely
from servicekit.logs import configure_logs
from servicekit.telemetry import TelemetrySettings, start_telemetry
from worker.app import working
from worker.providers.openai_compatible import OpenAICompatible
from worker.providers.routes import ProviderRoute
from worker.settings import WorkerSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from worker.providers.protocol import Provider


class Control:
    """What the bench asks of a worker."""

    def __init__(self, instant: InstantProvider) -> None:
        self._instant = instant

    async def usage(self, _: Mapping[str, Any]) -> dict[str, float]:
        """Processor seconds of this process so far."""
        return {"cpu": time.process_time()}

    async def note_calls(self, _: Mapping[str, Any]) -> dict[str, float]:
        """Answers when each call came since the last time, by its run token."""
        self._instant.noting = True
        calls, self._instant.calls = self._instant.calls, {}
        return calls


def settings_of(arguments: argparse.Namespace) -> WorkerSettings:
    """The defaults, but for slots: an instant provider is no reason to wait."""
    route = ProviderRoute(
        name="simulated" if arguments.provider else "instant",
        models=(arguments.model,),
        base_url=f"{arguments.provider or 'http://127.0.0.1:9'}/v1",
    )
    return WorkerSettings(
        listen="127.0.0.1:0",
        database_url=arguments.dsn,
        name=arguments.name,
        routes=(route,),
        slots=arguments.slots,
    )


async def main(arguments: argparse.Namespace) -> None:
    """Works until the parent closes our input."""
    instant, settings = InstantProvider(), settings_of(arguments)

    def provider_of(route: ProviderRoute) -> Provider:
        return OpenAICompatible(route) if arguments.provider else instant

    start_telemetry("hourglass-worker", version("hourglass"), TelemetrySettings.load())
    async with working(settings, asyncio.Event(), provider_of=provider_of) as worker:
        control = Control(instant)
        commands = {"usage": control.usage, "note_calls": control.note_calls, "profile": Profiling().profile}
        await answer_parent({"address": worker.address}, commands)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--provider", default="", help="base URL of a model server")
    configure_logs("worker", log_format="json", stream=sys.stderr)
    collect_rarely()
    asyncio.run(main(parser.parse_args()))
