"""Settlements outlive their request, a lost connection and a shutdown; the reaper does what they cannot."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal

import pytest

from budget.core import Budget
from budget.errors import BudgetError
from budget.ledger import Ledger
from budget.policy import Policy
from budget.postgres import Database, DatabaseLimits
from jobs_service.service.settling import Settling
from jobs_store.calls import CallEnd, CallStore, NewCall, Settlement
from jobs_store.identifiers import new_call_id
from jobs_store.pacing import Backoff
from jobs_store.states import AttemptOutcome
from tests.chaos_proxy import ChaosProxy
from tests.postgres import TestDatabase
from tests.proxied import proxy_to, through
from tests.store import RESERVED, TENANT, WORST_CASE, Store, open_store, time_enough
from tests.waiting import eventually

CHARGE = Decimal("0.004")
FUNDS = Decimal(1)
NOTHING = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A reserved call, and who settles it by way of a proxy."""

    store: Store
    settling: Settling
    settlement: Settlement
    proxy: ChaosProxy

    async def funds(self) -> tuple[Decimal, Decimal]:
        """Reserved and captured."""
        found = await self.store.tenants.get(TENANT, budget=time_enough())
        assert found.funded == found.available + found.reserved + found.captured
        return found.reserved, found.captured

    async def until_settled(self) -> None:
        """Waits until nothing is reserved."""

        async def nothing_is_reserved() -> bool:
            return (await self.funds())[0] == 0

        await eventually(nothing_is_reserved)


@asynccontextmanager
async def scene(database: TestDatabase, *, limit: float) -> AsyncIterator[Scene]:
    """A call that waits for its settlement, which is tried for `limit` seconds."""

    def policy_of(method: str) -> Policy:
        return Policy(dependency="postgres", method=method, limit=0.5)

    async with open_store(database) as store, proxy_to(database.request) as proxy:
        await store.tenant(funds=FUNDS)
        proxied = await Database.open(
            through(proxy, database.request),
            budget=time_enough(),
            size=2,
            application_name="proxied",
            limits=DatabaseLimits(cancel=0.1, clean_up=0.2, commit=0.2),
        )
        calls = CallStore(proxied, policy_of)
        call = NewCall(
            tenant=TENANT,
            call_id=new_call_id(),
            principal="ada",
            model="fast",
            lane="simulated/fast",
            time_left=5.0,
            price_version="1",
            amount=RESERVED,
            worst_case=WORST_CASE,
        )
        await calls.reserve(call, budget=time_enough())
        end = CallEnd(outcome=AttemptOutcome.CANCELLED, cause="CALLER_GONE", charge=CHARGE)
        try:
            yield Scene(
                store=store,
                settling=Settling(
                    calls, backoff=Backoff(jitter=lambda most: most, first=0.05, longest=0.2), limit=limit
                ),
                settlement=Settlement(tenant=TENANT, call_id=call.call_id, end=end),
                proxy=proxy,
            )
        finally:
            await proxied.close(Budget.for_work(1.0))


async def test_what_a_settlement_spends_stands_in_the_ledger_of_its_request(database: TestDatabase) -> None:
    async with scene(database, limit=4.0) as at:
        ledger = Ledger()
        assert CHARGE == await at.settling.settle(at.settlement, ledger=ledger)
        assert ["settle_calls"] == [spend.method for spend in ledger.spends]
        assert (NOTHING, CHARGE) == await at.funds()


async def test_a_cancelled_request_leaves_its_settlement_running_and_the_end_waits_for_it(
    database: TestDatabase,
) -> None:
    async with scene(database, limit=4.0) as at:
        at.proxy.withhold()
        stop = asyncio.Event()
        running = asyncio.ensure_future(at.settling.run(stop))
        request = asyncio.ensure_future(at.settling.settle(at.settlement, ledger=Ledger()))
        await asyncio.sleep(0)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        stop.set()
        at.proxy.flow()
        await running
        assert (NOTHING, CHARGE) == await at.funds()


async def test_a_settlement_whose_commit_was_not_answered_is_tried_again_and_captures_once(
    database: TestDatabase,
) -> None:
    async with scene(database, limit=4.0) as at:
        at.proxy.when(b"COMMIT", at.proxy.withhold)
        settling = asyncio.ensure_future(at.settling.settle(at.settlement, ledger=Ledger()))
        await at.until_settled()
        at.proxy.sever()
        at.proxy.flow()
        assert await settling is None
        assert (NOTHING, CHARGE) == await at.funds()


async def test_a_settlement_survives_a_lost_connection(database: TestDatabase) -> None:
    async with scene(database, limit=4.0) as at:
        at.proxy.sever()
        assert CHARGE == await at.settling.settle(at.settlement, ledger=Ledger())


async def test_a_settlement_that_cannot_be_done_in_time_is_left_to_the_reaper(database: TestDatabase) -> None:
    async with scene(database, limit=0.8) as at:
        at.proxy.freeze()
        with pytest.raises(BudgetError):
            await at.settling.settle(at.settlement, ledger=Ledger())
        assert (RESERVED, NOTHING) == await at.funds()
        at.proxy.flow()
