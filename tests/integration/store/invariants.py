"""What must hold at every commit of a store: the invariants of the product, over the whole database."""

from typing import Final
from uuid import UUID

from jobs_store.invariants.registry import ALWAYS, INVARIANTS, Scope
from jobs_store.verification import VerificationTerms, given_to
from tests.integration.store.locks import Connection

EVERYTHING: Final = ("", UUID(int=0), "z" * 64, UUID(int=2**128 - 1))
LIMITS: Final = """
    SELECT tenant_id FROM hourglass.tenant_limits WHERE running > max_running
    UNION ALL SELECT lane FROM hourglass.lanes WHERE running > max_running
"""
"""Of a test only: where nobody lowers a limit, none is exceeded."""


async def broken(connection: Connection) -> dict[str, list[str]]:
    """The invariants that do not hold, with what breaks each; `connection`: the superuser's."""
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    tenants = [*await _column(connection, "SELECT tenant_id FROM hourglass.tenants"), "*"]
    found = {name: await _offenders(connection, name, tenants) for name in ALWAYS}
    found["no limit is exceeded"] = await _column(connection, LIMITS)
    return {name: offenders for name, offenders in found.items() if offenders}


async def _offenders(connection: Connection, name: str, tenants: list[str]) -> list[str]:
    invariant = INVARIANTS[name]
    given = given_to(invariant, VerificationTerms())
    rows = await connection.fetch(invariant.sql, *_page(invariant.scope, tenants), *given)
    return [f"{row['subject']} {row['description']}" for row in rows]


def _page(scope: Scope, tenants: list[str]) -> tuple[object, ...]:
    match scope:
        case Scope.TENANTS:
            return (tenants,)
        case Scope.LANES | Scope.TABLES:
            return ()
        case _:
            return EVERYTHING


async def _column(connection: Connection, query: str) -> list[str]:
    return [row[0] for row in await connection.fetch(query)]
