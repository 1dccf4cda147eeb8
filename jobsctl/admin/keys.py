"""API keys of tenants: made, listed, revoked. A key's secret is shown once, when it is made."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from hourglass.jobs.v1.admin_service_pb2 import (
    ApiKey,
    CreateApiKeyRequest,
    ListApiKeysRequest,
    ListApiKeysResponse,
    RevokeApiKeyRequest,
)
from jobsctl import inputs
from jobsctl.decision import Decision, remark_replay, request_id_of, show_decided
from jobsctl.session import LARGEST_PAGE, Session
from presentation.values import moment

COLUMNS: Final = ("key", "user", "scopes", "created", "expires", "revoked")


async def create(
    session: Session,
    tenant_id: str,
    user_id: str,
    *,
    scopes: Sequence[str],
    expire_time: datetime | None,
    decision: Decision,
) -> None:
    """A key by which a user of the tenant calls. On stdout: its secret alone, or the answer as JSON."""
    request = CreateApiKeyRequest(
        tenant_id=tenant_id,
        user_id=user_id,
        scopes=scopes,
        expire_time=inputs.time(expire_time),
        request_id=request_id_of(decision, session.printer),
        reason=decision.reason,
    )
    answer = await session.call("CreateApiKey", session.admin.CreateApiKey, request)
    if session.printer.json:
        session.printer.message(answer)
    elif answer.secret:
        session.printer.remark(f"key {answer.api_key.key_id}; its secret is not shown again")
        session.printer.line(answer.secret)
    else:
        session.printer.facts(_facts(answer.api_key))
    remark_replay(session.printer, replayed=answer.replayed)


async def list_keys(session: Session, tenant_id: str) -> None:
    """All keys of a tenant, by id."""
    found = ListApiKeysResponse()
    while True:
        request = ListApiKeysRequest(
            tenant_id=tenant_id, page_size=LARGEST_PAGE, page_token=found.next_page_token
        )
        page = await session.call("ListApiKeys", session.admin.ListApiKeys, request)
        found.api_keys.extend(page.api_keys)
        found.next_page_token = page.next_page_token
        if not page.next_page_token:
            break
    if session.printer.json:
        session.printer.message(found)
    else:
        session.printer.table(COLUMNS, map(_row, found.api_keys))


async def revoke(session: Session, tenant_id: str, key_id: str, decision: Decision) -> None:
    """The key ends for good."""
    request = RevokeApiKeyRequest(
        tenant_id=tenant_id,
        key_id=key_id,
        request_id=request_id_of(decision, session.printer),
        reason=decision.reason,
    )
    answer = await session.call("RevokeApiKey", session.admin.RevokeApiKey, request)
    show_decided(session.printer, answer, _facts(answer.api_key))


def _row(key: ApiKey) -> Sequence[str]:
    return (
        key.key_id,
        key.user_id,
        " ".join(key.scopes),
        moment(key.create_time),
        moment(key.expire_time),
        moment(key.revoke_time),
    )


def _facts(key: ApiKey) -> Mapping[str, str]:
    return {
        "key": key.key_id,
        "tenant": key.tenant_id,
        "user": key.user_id,
        "scopes": " ".join(key.scopes),
        "created": moment(key.create_time),
        "expires": moment(key.expire_time) if key.HasField("expire_time") else "",
        "revoked": moment(key.revoke_time) if key.HasField("revoke_time") else "",
    }
