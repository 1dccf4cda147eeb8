"""What knowing the caller adds to a request, in microseconds: `python -m bench.identity`."""

import asyncio
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from budget.core import Budget
from jobs_service.settings import JobsSettings
from servicekit.call import Arrival, AuthContext, Authenticate, Principal, development_principal
from servicekit.identity.api_key_text import ApiKeyText, new_api_key
from servicekit.identity.api_keys import ApiKeys, KeyAges, StoredKey
from servicekit.identity.errors import IdentityError
from servicekit.identity.gate import Gate
from servicekit.identity.scopes import EVERY_SCOPE, Scope, needs
from tests.tokens import bearer, identity_settings, token

REPEATS: Final = 5
EDGE: Final = {"name": "edge", "certificates": ["edge.test"], "scopes": ["read"]}
EDGE_PEER: Final[AuthContext] = {"x509_pem_cert": [b"..."], "peer_dns": [b"edge.test"]}


def arrival(metadata: Mapping[str, str], peer: AuthContext | None = None) -> Arrival:
    """A request; what core tells of its peer is at hand, so looking there is not measured."""
    return Arrival("/bench/Method", needs(Scope.READ), metadata, lambda: peer or {})


async def gate_of(folder: Path, key: ApiKeyText) -> Gate:
    """A gate that takes everything, its keys read."""

    async def find(_tenant: str, _key_id: str, _budget: Budget) -> StoredKey:
        return StoredKey(digest=key.digest, user="bench", scopes=EVERY_SCOPE, expires=None, revoked=False)

    given: dict[str, Any] = {
        **identity_settings(folder),
        "api_keys": True,
        "services": [EDGE],
        "database_url": "postgresql://bench:bench@localhost/bench",
    }
    gate = JobsSettings(**given).gate(ApiKeys(find, KeyAges(age=3600.0)))
    assert gate is not None
    assert gate._proofs.keys is not None  # noqa: SLF001 - no loop runs here
    await gate._proofs.keys._read_once()  # noqa: SLF001
    return gate


async def cost(authenticate: Authenticate, request: Arrival, count: int) -> float:
    """The best mean of some rounds, in microseconds."""
    budget, best = Budget.for_work(600.0), float("inf")
    for _ in range(REPEATS):
        began = time.perf_counter()
        for _ in range(count):
            await authenticate(request, budget)
        best = min(best, (time.perf_counter() - began) / count)
    return best * 1e6


async def main() -> None:
    """Prints a line a kind of credentials."""
    key = new_api_key("acme")
    with tempfile.TemporaryDirectory() as folder:
        gate = await gate_of(Path(folder), key)
    tokens = gate._proofs.tokens  # noqa: SLF001 - to forget what it knows
    assert tokens is not None

    async def first_time(request: Arrival, budget: Budget) -> Principal:
        tokens._verified.clear()  # noqa: SLF001
        return await gate(request, budget)

    async def refused(request: Arrival, budget: Budget) -> Principal:
        try:
            return await gate(request, budget)
        except IdentityError:
            return Principal(tenant="", user="")

    good, bad = dict(bearer(token())), dict(bearer(token()[:-6] + "AAAAAA"))
    figures = {
        "nobody is known": await cost(development_principal, arrival({}), 20_000),
        "token, remembered": await cost(gate, arrival(good), 20_000),
        "API key, remembered": await cost(gate, arrival(dict(bearer(key.text))), 20_000),
        "certificate": await cost(gate, arrival({"x-tenant-id": "acme"}, EDGE_PEER), 20_000),
        "token (ES256), first time": await cost(first_time, arrival(good), 1000),
        "token, wrong signature": await cost(refused, arrival(bad), 1000),
        "no token at all": await cost(refused, arrival({"authorization": "Bearer garbage"}), 5000),
    }
    for what, microseconds in figures.items():
        print(f"{what:28}{microseconds:8.1f} us")


if __name__ == "__main__":
    asyncio.run(main())
