"""API keys of tenants: made and revoked by operators, found by whoever presents one."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from budget.core import Budget
from budget.errors import ConstraintViolation
from budget.postgres import Database, Record, Transaction
from jobs_store.creation import PolicyOf
from jobs_store.errors import ApiKeyNotFound, TenantNotFound
from jobs_store.identifiers import TenantId
from jobs_store.operator_requests import Asked, OperatorRequest, take_request
from jobs_store.statements import statement


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApiKey:
    """A key to make. digest: 32 bytes, all that is stored of its text. expire_time: None: never."""

    tenant: TenantId
    key_id: str
    digest: bytes
    user: str
    scopes: Sequence[str]
    expire_time: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """What may be told of a key."""

    tenant_id: TenantId
    key_id: str
    user_id: str
    scopes: Sequence[str]
    create_time: datetime
    expire_time: datetime | None
    revoke_time: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyRecord:
    """What a presented key is compared with."""

    digest: bytes
    user_id: str
    scopes: Sequence[str]
    expire_time: datetime | None
    revoke_time: datetime | None


class ApiKeyStore:
    """Keys, as the request role with the tenant named."""

    def __init__(self, database: Database, policy_of: PolicyOf) -> None:
        self._database = database
        self._policy_of = policy_of

    async def create(
        self, key: NewApiKey, request: OperatorRequest, *, budget: Budget
    ) -> tuple[ApiKey, bool]:
        """The key of a request, and whether it was made now. Raises RequestIdReused, TenantNotFound."""
        asked = Asked(
            action="CREATE_API_KEY",
            content=("CREATE_API_KEY", key.tenant, key.user, sorted(key.scopes), _text(key.expire_time)),
            subject=f"tenant:{key.tenant}",
            details={"key_id": key.key_id, "user": key.user, "scopes": sorted(key.scopes)},
        )
        policy = self._policy_of("create_api_key")
        try:
            async with self._database.transaction(budget, policy, tenants=[key.tenant]) as transaction:
                is_new = await take_request(transaction, key.tenant, request, asked)
                if is_new:
                    await _insert(transaction, key, request)
                row = await transaction.fetchrow(
                    statement("read_api_key"), key.tenant, None, request.request_id
                )
        except ConstraintViolation as error:
            if error.constraint == "api_keys_tenant_id_fkey":
                raise TenantNotFound(key.tenant) from error
            raise
        assert row is not None, "the request was carried out, so its key is there"
        return ApiKey(**row), is_new

    async def revoke(
        self, tenant: TenantId, key_id: str, request: OperatorRequest, *, budget: Budget
    ) -> tuple[ApiKey, bool]:
        """The key, and whether this request is new. Raises ApiKeyNotFound, RequestIdReused."""
        asked = Asked(
            action="REVOKE_API_KEY",
            content=("REVOKE_API_KEY", tenant, key_id),
            subject=f"tenant:{tenant}",
            details={"key_id": key_id},
        )
        policy = self._policy_of("revoke_api_key")
        async with self._database.transaction(budget, policy, tenants=[tenant]) as transaction:
            is_new = await take_request(transaction, tenant, request, asked)
            if is_new and await transaction.fetchval(statement("revoke_api_key"), tenant, key_id) is None:
                raise ApiKeyNotFound(key_id)
            row = await transaction.fetchrow(statement("read_api_key"), tenant, key_id, None)
        if row is None:
            raise ApiKeyNotFound(key_id)
        return ApiKey(**row), is_new

    async def page(self, tenant: TenantId, *, after: str, size: int, budget: Budget) -> list[ApiKey]:
        """Up to `size` keys with an id above `after`, by id."""
        rows = await self._read("list_api_keys", tenant, after, size, budget=budget)
        return [ApiKey(**row) for row in rows]

    async def find(self, tenant: TenantId, key_id: str, *, budget: Budget) -> ApiKeyRecord | None:
        """The key that somebody presents."""
        rows = await self._read("find_api_key", tenant, key_id, budget=budget)
        return ApiKeyRecord(**rows[0]) if rows else None

    async def _read(
        self, name: str, tenant: TenantId, *arguments: object, budget: Budget
    ) -> Sequence[Record]:
        policy = self._policy_of(name)
        async with self._database.transaction(budget, policy, tenants=[tenant], reading=True) as transaction:
            return await transaction.fetch(statement(name), tenant, *arguments)


async def _insert(transaction: Transaction, key: NewApiKey, request: OperatorRequest) -> None:
    await transaction.execute(
        statement("create_api_key"),
        key.tenant,
        key.key_id,
        key.digest,
        key.user,
        list(key.scopes),
        key.expire_time,
        request.request_id,
    )


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
