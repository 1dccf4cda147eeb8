"""PricingService and workers answer services that they were told of, by certificate or by token."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from hourglass.pricing.v1 import pricing_service_pb2 as pb
from hourglass.pricing.v1.pricing_service_pb2_grpc import PricingServiceStub
from pricing_service.app import build_server, build_service
from pricing_service.settings import PricingSettings
from servicekit.lifecycle import background_loops
from tests.certificates import Authority
from tests.integration.identity.callers import ADMIN, Known
from tests.jobs import failure, jobs_server
from tests.postgres import TestDatabase
from tests.tokens import bearer, identity_settings, token

BY_CERTIFICATE: dict[str, Any] = {"name": "jobs", "certificates": ["jobs.hourglass"], "scopes": ["read"]}
BY_TOKEN: dict[str, Any] = {"name": "jobs", "subjects": ["system:jobs"], "scopes": ["read"]}
JOBS_TOKEN: dict[str, Any] = {"user": "system:jobs", "without": ("tenant", "scope")}
PRICE = pb.ListPricesRequest()


@asynccontextmanager
async def pricing(**settings: Any) -> AsyncIterator[str]:
    """PricingService for services alone; its address."""
    given = PricingSettings(listen="127.0.0.1:0", **settings)
    gate = given.gate(services_only=True)
    assert gate is not None
    async with (
        background_loops(grace=1.0) as loops,
        build_server(given, build_service(given), gate).serving({}) as server,
    ):
        gate.start(loops)
        server.health.set_ready(True)
        yield server.address


async def prices(address: str, credentials: grpc.ChannelCredentials | None, metadata: Any = ()) -> Any:
    target = f"localhost:{address.rpartition(':')[2]}"
    channel = (
        grpc.aio.insecure_channel(address)
        if credentials is None
        else grpc.aio.secure_channel(target, credentials)
    )
    async with channel:
        stub: Any = PricingServiceStub(channel)
        return await stub.ListPrices(PRICE, timeout=10, metadata=metadata)


async def test_a_service_is_known_by_its_certificate_and_any_other_is_not(tmp_path: Path) -> None:
    authority = Authority(folder=tmp_path)
    tls: dict[str, Any] = {**authority.server(), "tls_client_ca_file": authority.file}
    async with pricing(**tls, services=[BY_CERTIFICATE]) as address:
        jobs = authority.credentials(authority.issue("jobs.hourglass"))
        assert (await prices(address, jobs)).models
        stranger = authority.credentials(authority.issue("other.hourglass"))
        refused = await failure(prices(address, stranger, (("x-tenant-id", "acme"),)))
        assert (grpc.StatusCode.UNAUTHENTICATED, "UNKNOWN_SERVICE") == refused.kind


async def test_users_get_no_prices_whatever_they_may(tmp_path: Path) -> None:
    async with pricing(**identity_settings(tmp_path), services=[BY_TOKEN]) as address:
        for metadata, kind in (
            ((), (grpc.StatusCode.UNAUTHENTICATED, "MISSING_CREDENTIALS")),
            (bearer(token(scope=ADMIN)), (grpc.StatusCode.PERMISSION_DENIED, "SERVICES_ONLY")),
        ):
            assert kind == (await failure(prices(address, None, metadata))).kind
        assert (await prices(address, None, bearer(token(**JOBS_TOKEN)))).models


@pytest.mark.parametrize("proves", [True, False])
async def test_job_service_proves_itself_to_pricing_service(
    database: TestDatabase, tmp_path: Path, proves: bool
) -> None:
    file = tmp_path / "token"
    file.write_text(token(**JOBS_TOKEN))
    own: dict[str, Any] = {"peer_token_file": file} if proves else {}
    keys = identity_settings(tmp_path)
    async with (
        pricing(**keys, services=[BY_TOKEN]) as address,
        jobs_server(database, pricing=address, **keys, **own) as jobs,
    ):
        known = Known(jobs=jobs)
        await known.tenant("acme")
        if proves:
            assert (await known.create(bearer(token()))).job_id
        else:
            # The caller's own credentials are good: what is wrong is between the processes.
            refused = await failure(known.create(bearer(token())))
            assert refused.code not in {
                grpc.StatusCode.UNAUTHENTICATED,
                grpc.StatusCode.PERMISSION_DENIED,
            }
