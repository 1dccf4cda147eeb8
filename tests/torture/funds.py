"""Money that comes in and goes out: once a request_id, whatever happens to the answers."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

from hourglass.jobs.v1 import admin_service_pb2 as pb
from servicekit.wire_money import amount_of, money_of
from tests.torture.calls import Calls, Refused
from tests.torture.planned_jobs import NARROW, TENANTS, THRIFT

PLENTY: Final = Decimal(50)
NARROW_LIMIT: Final = 3
LONGEST_EMPTY: Final = 30.0
LOOK_INTERVAL: Final = 0.2


class Funds:
    """All fundings of the run. `moved`: what each tenant was given, less what was taken, in dollars."""

    def __init__(self, calls: Calls) -> None:
        self.moved: defaultdict[str, Decimal] = defaultdict(Decimal)
        self.refusals = 0
        """How often a tenant had too little; counted by submitters."""
        self._calls = calls
        self._number = 0

    async def open(self) -> None:
        """Make the tenants, and give each plenty."""
        for tenant in TENANTS:
            limits = pb.TenantLimits(max_running_count=NARROW_LIMIT if tenant == NARROW else 100)
            request = pb.CreateTenantRequest(
                tenant_id=tenant, limits=limits, request_id=f"make {tenant}", reason="torture"
            )
            await self._calls.admin("CreateTenant", request)
            await self.move(tenant, PLENTY)

    async def run_empty(self, *, at_least: float, probe: Callable[[], None]) -> bool:
        """Take what is there from the thrifty tenant, until somebody was refused; then fill it up again.

        probe: has a job created, which is refused if nobody else is before.
        """
        before, taken = self.refusals, await self._take_all(THRIFT)
        probe()
        loop = asyncio.get_running_loop()
        start = loop.time()
        while loop.time() - start < at_least or (
            self.refusals == before and loop.time() - start < LONGEST_EMPTY
        ):
            taken += await self._take_all(THRIFT)
            await asyncio.sleep(LOOK_INTERVAL)
        if taken:
            await self.move(THRIFT, taken)
        return self.refusals > before

    async def move(self, tenant: str, amount: Decimal) -> None:
        """Give, or take when negative. Raises Refused when there is less."""
        self._number += 1
        request = pb.FundTenantRequest(
            tenant_id=tenant,
            amount=money_of(amount),
            request_id=f"funding {self._number}",
            reason="torture",
        )
        await self._calls.admin("FundTenant", request, server=self._number)
        self.moved[tenant] += amount

    async def totals(self) -> Mapping[str, pb.Funds]:
        """What each tenant has, as the service says."""
        return {tenant: (await self._tenant(tenant)).funds for tenant in TENANTS}

    async def _take_all(self, tenant: str) -> Decimal:
        available = amount_of((await self._tenant(tenant)).funds.available_amount)
        if not available:
            return available
        try:
            await self.move(tenant, -available)
        except Refused:  # somebody was faster
            return Decimal(0)
        return available

    async def _tenant(self, tenant: str) -> pb.Tenant:
        request = pb.GetTenantRequest(tenant_id=tenant)
        answer: pb.GetTenantResponse = await self._calls.admin("GetTenant", request)
        return answer.tenant
