"""API keys as the identity of a request needs them: found in the store."""

from datetime import datetime

from budget.core import Budget
from jobs_store.api_keys import ApiKeyStore
from jobs_store.identifiers import TenantId
from servicekit.identity.api_keys import FindKey, StoredKey
from servicekit.identity.scopes import known_scopes


def finder(store: ApiKeyStore) -> FindKey:
    """Looks keys up in a store."""

    async def find(tenant: str, key_id: str, budget: Budget) -> StoredKey | None:
        found = await store.find(TenantId(tenant), key_id, budget=budget)
        if found is None:
            return None
        return StoredKey(
            digest=found.digest,
            user=found.user_id,
            scopes=known_scopes(found.scopes),
            expires=_seconds(found.expire_time),
            revoked=found.revoke_time is not None,
        )

    return find


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
