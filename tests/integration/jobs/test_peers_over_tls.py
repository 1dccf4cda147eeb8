"""JobService calls the others over mTLS, and tells a peer that it cannot trust from one that is slow."""

from decimal import Decimal
from typing import Any

from hourglass.jobs.v1 import jobs_service_pb2 as pb
from pricing_service.app import build_server, build_service
from pricing_service.settings import PricingSettings
from tests.certificates import Authority
from tests.jobs import MODEL, TENANT, Jobs, failure, jobs_server, of
from tests.postgres import TestDatabase


def pricing_settings(authority: Authority) -> PricingSettings:
    return PricingSettings(
        listen="127.0.0.1:0", tls_client_ca_file=authority.file, **authority.server("pricing")
    )


def peer(authority: Authority) -> dict[str, Any]:
    certificate, key = authority.pair("jobs", "jobs.example")
    return {"peer_ca_file": authority.file, "peer_certificate_file": certificate, "peer_key_file": key}


async def quote(jobs: Jobs) -> pb.QuoteResponse:
    answer: pb.QuoteResponse = await jobs.jobs.Quote(
        pb.QuoteRequest(models=[MODEL], input_token_bound=10), metadata=of(TENANT), timeout=5.0
    )
    return answer


async def test_a_quote_is_priced_over_mtls(database: TestDatabase, authority: Authority) -> None:
    settings = pricing_settings(authority)
    async with build_server(settings, build_service(settings)).serving({}) as pricing:
        pricing.health.set_ready(True)
        async with jobs_server(database, pricing=pricing.address, **peer(authority)) as jobs:
            await jobs.fund(TENANT, Decimal(10))
            assert (await quote(jobs)).quote_id


async def test_without_a_certificate_there_is_no_price(database: TestDatabase, authority: Authority) -> None:
    settings = pricing_settings(authority)
    async with (
        build_server(settings, build_service(settings)).serving({}) as pricing,
        jobs_server(database, pricing=pricing.address, peer_ca_file=authority.file) as jobs,
    ):
        await jobs.fund(TENANT, Decimal(10))
        refused = await failure(quote(jobs))

    assert "UNAVAILABLE" == refused.code.name, refused
