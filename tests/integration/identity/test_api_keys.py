"""API keys from their making to their end."""

from datetime import UTC, datetime, timedelta

import grpc
import pytest
import structlog

from hourglass.jobs.v1 import admin_service_pb2 as admin_pb
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from servicekit.wire_time import timestamp_of
from tests.integration.identity.callers import Known
from tests.jobs import failure, failure_of
from tests.tokens import bearer
from tests.waiting import eventually


async def outcome(known: Known, secret: str) -> str:
    """`ok`, or the reason why the key was refused."""
    try:
        await known.ask("ListJobs", pb.ListJobsRequest(), bearer(secret))
    except grpc.aio.AioRpcError as error:
        return failure_of(error).reason
    return "ok"


def revocation(tenant: str, key_id: str, request_id: str = "end") -> admin_pb.RevokeApiKeyRequest:
    return admin_pb.RevokeApiKeyRequest(tenant_id=tenant, key_id=key_id, request_id=request_id, reason="lost")


async def test_a_key_is_shown_once_and_stored_as_a_digest(known: Known) -> None:
    with structlog.testing.capture_logs() as logs:
        made, again = await known.key("acme"), await known.key("acme")
    assert (True, "", made.api_key) == (again.replayed, again.secret, again.api_key)
    listed = await known.administer("ListApiKeys", admin_pb.ListApiKeysRequest(tenant_id="acme"))
    assert [made.api_key] == list(listed.api_keys)
    secret = made.secret.rpartition("_")[2]
    for place in (str(logs), str(await known.jobs.sql("SELECT * FROM hourglass.api_keys"))):
        assert secret not in place
    assert secret not in str(await known.jobs.sql("SELECT * FROM hourglass.audit_log"))
    job = await known.create(bearer(made.secret))
    assert "batch" == job.principal


async def test_a_revoked_key_stops_soon_and_stays_ended(known: Known) -> None:
    made = await known.key("acme")
    assert "ok" == await outcome(known, made.secret)
    ended = await known.administer("RevokeApiKey", revocation("acme", made.api_key.key_id))
    assert ended.api_key.HasField("revoke_time")

    async def stopped() -> bool:
        return "API_KEY_REVOKED" == await outcome(known, made.secret)

    await eventually(stopped, within=2.0)
    again = await known.administer("RevokeApiKey", revocation("acme", made.api_key.key_id, "again"))
    assert ended.api_key.revoke_time == again.api_key.revoke_time


async def test_a_key_ends_at_its_time(known: Known) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=1.0)
    made = await known.key("acme", expire_time=timestamp_of(soon))
    assert "ok" == await outcome(known, made.secret)

    async def ended() -> bool:
        return "API_KEY_EXPIRED" == await outcome(known, made.secret)

    await eventually(ended, within=3.0)


async def test_a_key_does_what_its_scopes_say(known: Known) -> None:
    made = await known.key("acme", ["read"])
    refused = await failure(known.create(bearer(made.secret)))
    assert (grpc.StatusCode.PERMISSION_DENIED, "SCOPE_MISSING") == refused.kind


async def test_another_tenants_key_is_not_found_by_its_id(known: Known) -> None:
    made = await known.key("acme")
    refused = await failure(known.administer("RevokeApiKey", revocation("zeta", made.api_key.key_id)))
    assert (grpc.StatusCode.NOT_FOUND, "API_KEY_NOT_FOUND") == refused.kind
    assert "ok" == await outcome(known, made.secret)


async def test_a_key_of_no_tenant_is_not_made(known: Known) -> None:
    refused = await failure(known.key("nobody"))
    assert (grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND") == refused.kind


async def test_keys_are_listed_in_pages_that_belong_to_their_tenant(known: Known) -> None:
    made = {(await known.key("acme", request_id=f"key-{number}")).api_key.key_id for number in range(5)}
    found, page_token = [], ""
    for _ in range(3):
        request = admin_pb.ListApiKeysRequest(tenant_id="acme", page_size=2, page_token=page_token)
        page = await known.administer("ListApiKeys", request)
        found += [key.key_id for key in page.api_keys]
        page_token = page.next_page_token or page_token
    assert sorted(made) == found
    foreign = admin_pb.ListApiKeysRequest(tenant_id="zeta", page_token=page_token)
    refused = await failure(known.administer("ListApiKeys", foreign))
    assert {"page_token"} == set(refused.violations)


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({}, {"tenant_id", "user_id", "scopes", "request_id", "reason"}),
        (
            {"tenant_id": "A", "user_id": "two words", "scopes": ["read", "root"], "request_id": "r"},
            {"tenant_id", "user_id", "scopes[1]", "reason"},
        ),
        (
            {
                "tenant_id": "acme",
                "user_id": "u",
                "scopes": ["read"],
                "request_id": "r",
                "reason": "r",
                "expire_time": timestamp_of(datetime(2020, 1, 1, tzinfo=UTC)),
            },
            {"expire_time"},
        ),
    ],
)
async def test_a_malformed_key_is_refused_with_every_field(
    known: Known, fields: dict[str, object], wrong: set[str]
) -> None:
    request = admin_pb.CreateApiKeyRequest(**fields)  # type: ignore[arg-type]  # wrong on purpose
    refused = await failure(known.administer("CreateApiKey", request))
    assert wrong == set(refused.violations)
