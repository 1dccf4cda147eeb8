"""Operators' decisions, and the jobs that they are about."""

from collections.abc import Awaitable, Callable

import pytest

from jobs_store.errors import (
    StoreError,
)
from jobs_store.identifiers import JobId
from jobs_store.operator_decisions import Decision, Resolution
from jobs_store.reading import JobDetail, Position
from tests.integration.store.invariants import broken
from tests.integration.store.locks import superuser
from tests.store import (
    TENANT,
    Store,
    time_enough,
)

Act = Callable[[Store, Decision], Awaitable[bool]]


async def retry(store: Store, decision: Decision) -> bool:
    return await store.decisions.retry(decision, budget=time_enough())


async def send_back(store: Store, decision: Decision) -> bool:
    return await store.decisions.resolve(decision, Resolution.RETRY, budget=time_enough())


async def let_fail(store: Store, decision: Decision) -> bool:
    return await store.decisions.resolve(decision, Resolution.FAIL, budget=time_enough())


async def erase(store: Store, decision: Decision) -> bool:
    return await store.decisions.erase(decision, budget=time_enough())


async def job_of(store: Store, job_id: JobId) -> JobDetail:
    return await store.reader.get(TENANT, job_id, budget=time_enough(), with_attempts=True, with_content=True)


async def position_of(store: Store, job_id: JobId) -> Position:
    return await store.reader.position(TENANT, job_id, budget=time_enough())


async def everything(store: Store) -> dict[str, list[str]]:
    """Every row of every table that a decision may touch."""
    tables = (
        "jobs", "finished_jobs", "job_payloads", "job_results", "job_events", "reservations", "tenant_limits",
        "tenant_funds", "operator_requests", "audit_log",
    )  # fmt: skip
    async with superuser(store) as connection:
        return {
            table: [
                str(row) for row in await connection.fetch(f"SELECT * FROM hourglass.{table} ORDER BY 1, 2")
            ]
            for table in tables
        }


async def require_invariants(store: Store) -> None:
    async with superuser(store) as connection:
        assert {} == await broken(connection)


async def require_refused(
    store: Store, act: Act, decision: Decision, refusal: type[StoreError]
) -> StoreError:
    """The decision is refused, and nothing at all was written."""
    before = await everything(store)
    with pytest.raises(refusal) as refused:
        await act(store, decision)
    assert before == await everything(store)
    return refused.value


async def failed_job(store: Store) -> JobId:
    return (await store.failed()).job_id


async def held_job(store: Store) -> JobId:
    return (await store.held()).job_id


async def finished_job(store: Store) -> JobId:
    return (await store.succeeded()).job_id
