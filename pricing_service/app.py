"""The wiring of the pricing process."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from budget.core import Budget
from pricing_service.domain import PriceList
from pricing_service.price_catalog import load_catalogs, select_catalog
from pricing_service.rpc import METHODS, add_to
from pricing_service.service import PricingService
from servicekit.call import development_principal
from servicekit.lifecycle import background_loops
from servicekit.request import Terms, trusted
from servicekit.saturation import LoopWatch
from servicekit.server import Server
from servicekit.telemetry import start_telemetry

if TYPE_CHECKING:
    import asyncio

    from pricing_service.settings import PricingSettings
    from servicekit.identity.gate import Gate
    from servicekit.telemetry import TelemetrySettings

LOOP_GRACE = 1.0
TELEMETRY_STOP_LIMIT = 2.0
"""Seconds for the loops to end, and for sending out the last spans."""


def build_service(settings: PricingSettings) -> PricingService:
    """The use cases over the configured catalogs. Raises MalformedCatalog."""
    catalogs = load_catalogs(settings.catalog_directory)
    current = PriceList.of(select_catalog(catalogs, settings.catalog_version), settings.markup)
    return PricingService({catalog.price_version: catalog for catalog in catalogs}, current=current)


def build_server(settings: PricingSettings, service: PricingService, gate: Gate | None = None) -> Server:
    """The gRPC server, not started. gate: None believes everybody."""
    terms = Terms(
        authenticate=gate or development_principal,
        ledger_for=trusted(settings.ledger_tenants),
        admission=settings.admission_control(),
    )
    server = Server(settings, METHODS, terms)
    add_to(server, service)
    return server


async def run(settings: PricingSettings, observed: TelemetrySettings, stopping: asyncio.Event) -> None:
    """Serves until `stopping` is set, then drains."""
    telemetry = start_telemetry(
        "hourglass-pricing", version("hourglass"), observed, metrics_listen=settings.metrics_listen
    )
    try:
        service = build_service(settings)
        gate = settings.gate(services_only=True)
        server = build_server(settings, service, gate)
        async with (
            background_loops(grace=LOOP_GRACE) as loops,
            server.serving({"price_version": service.price_version}),
        ):
            loops.start("loop watch", LoopWatch().run)
            loops.start("certificates", server.certificates.run)
            if gate is not None:
                gate.start(loops)
            server.health.set_ready(True)
            await stopping.wait()
    finally:
        await telemetry.stop(Budget.for_work(TELEMETRY_STOP_LIMIT))
