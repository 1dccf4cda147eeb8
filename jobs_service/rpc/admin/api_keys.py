"""AdminService: API keys."""

from datetime import UTC, datetime

from typing_extensions import override

from hourglass.jobs.v1 import admin_service_pb2 as pb
from jobs_service.domain.name_token import name_token
from jobs_service.rpc.admin.checks import read_name_page
from jobs_service.rpc.admin.read_api_key import read_new_key, read_revocation
from jobs_service.rpc.admin.read_tenant import read_tenant_id
from jobs_service.rpc.admin.room import Context, Room
from jobs_store.api_keys import ApiKey, NewApiKey
from servicekit.call import call_of
from servicekit.identity.api_key_text import new_api_key
from servicekit.wire_time import timestamp_of


class ApiKeyRoom(Room):
    """API keys: made, looked at, ended."""

    @override
    async def CreateApiKey(
        self, request: pb.CreateApiKeyRequest, context: Context
    ) -> pb.CreateApiKeyResponse:
        call = call_of(context)
        wanted = read_new_key(request, call.principal.user, now=datetime.now(UTC))
        text = new_api_key(wanted.tenant)
        new = NewApiKey(
            tenant=wanted.tenant,
            key_id=text.key_id,
            digest=text.digest,
            user=wanted.user,
            scopes=wanted.scopes,
            expire_time=wanted.expire_time,
        )
        key, is_new = await self._use.api_keys.create(new, wanted.request, budget=call.budget)
        return pb.CreateApiKeyResponse(
            api_key=_message(key), secret=text.text if is_new else "", replayed=not is_new
        )

    @override
    async def ListApiKeys(self, request: pb.ListApiKeysRequest, context: Context) -> pb.ListApiKeysResponse:
        call = call_of(context)
        tenant = read_tenant_id(request.tenant_id)
        lister = f"ListApiKeys/{tenant}"
        page = read_name_page(request, lister)
        found = await self._use.api_keys.page(
            tenant, after=page.start, size=page.size + 1, budget=call.budget
        )
        shown = found[: page.size]
        token = name_token(lister, shown[-1].key_id) if len(found) > page.size else ""
        return pb.ListApiKeysResponse(api_keys=map(_message, shown), next_page_token=token)

    @override
    async def RevokeApiKey(
        self, request: pb.RevokeApiKeyRequest, context: Context
    ) -> pb.RevokeApiKeyResponse:
        call = call_of(context)
        wanted = read_revocation(request, call.principal.user)
        key, is_new = await self._use.api_keys.revoke(
            wanted.tenant, wanted.key_id, wanted.request, budget=call.budget
        )
        return pb.RevokeApiKeyResponse(api_key=_message(key), replayed=not is_new)


def _message(key: ApiKey) -> pb.ApiKey:
    return pb.ApiKey(
        tenant_id=key.tenant_id,
        key_id=key.key_id,
        user_id=key.user_id,
        scopes=key.scopes,
        create_time=timestamp_of(key.create_time),
        expire_time=None if key.expire_time is None else timestamp_of(key.expire_time),
        revoke_time=None if key.revoke_time is None else timestamp_of(key.revoke_time),
    )
