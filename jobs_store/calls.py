"""Short calls that need no job: money is set aside before the send and settled once, in every ending."""

from dataclasses import dataclass, field
from decimal import Decimal
from uuid import UUID

from budget.core import Budget
from budget.policy import Policy
from budget.postgres import Database, Record, Transaction
from budget.retry import Try
from jobs_store.attempts import NO_USAGE, ZERO, ProviderCost
from jobs_store.creation import PolicyOf
from jobs_store.errors import InsufficientFunds, LaneClosed, TenantNotFound
from jobs_store.funds_line import left_nothing, moving_line
from jobs_store.identifiers import CallId, TenantId
from jobs_store.job_metrics import CALL, JobMetrics
from jobs_store.rate_card import Usage
from jobs_store.statements import statement
from jobs_store.states import AttemptOutcome, CostBasis
from jobs_store.stored_json import dump

NOT_REPORTED = "NOT_REPORTED"
"""The cause of a call that nobody settled in time: its server died, and nobody knows what it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCall:
    """A call that is about to be made. Amounts in dollars.

    time_left: seconds until the caller's deadline.
    amount: what is set aside, the worst case at the tenant's card. worst_case: the same at the provider's.
    """

    tenant: TenantId
    call_id: CallId
    principal: str
    model: str
    lane: str
    time_left: float
    price_version: str
    amount: Decimal
    worst_case: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnd:
    """What came of a call. `charge`: dollars that the tenant owes; the reservation caps what it pays."""

    outcome: AttemptOutcome
    cause: str
    charge: Decimal = ZERO
    usage: Usage = NO_USAGE
    cost: ProviderCost = field(default_factory=ProviderCost.nothing)
    provider_request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The end of one call. Without an `end` nobody knows it: nothing is captured, and its cost is UNKNOWN."""

    tenant: TenantId
    call_id: CallId
    end: CallEnd | None

    @property
    def known_end(self) -> CallEnd:
        """The end, or that nobody knows it."""
        return self.end or _UNKNOWN

    def to_json(self) -> dict[str, object]:
        """The form that settle_calls reads; a worst case of null leaves the one that stands on the row."""
        end = self.known_end
        return {
            "tenant_id": self.tenant,
            "id": self.call_id,
            "outcome": end.outcome,
            "cause": end.cause,
            "charge": end.charge,
            "provider_request_id": end.provider_request_id,
            "input_tokens": end.usage.input_tokens,
            "cached_input_tokens": end.usage.cached_input_tokens,
            "output_tokens": end.usage.output_tokens,
            "cost": end.cost.amount,
            "cost_basis": end.cost.basis,
            "worst_case": end.cost.worst_case if self.end else None,
        }


_UNKNOWN = CallEnd(
    outcome=AttemptOutcome.UNKNOWN, cause=NOT_REPORTED, cost=ProviderCost(basis=CostBasis.UNKNOWN)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledCall:
    """A call that was settled now. Dollars."""

    lane: str
    captured: Decimal
    released: Decimal


class CallStore:
    """Calls, as the request role."""

    def __init__(self, database: Database, policy_of: PolicyOf, *, metrics: JobMetrics | None = None) -> None:
        self._database = database
        self._policy_of = policy_of
        self._metrics = metrics or JobMetrics()
        self._line = moving_line()

    async def reserve(self, call: NewCall, *, budget: Budget) -> None:
        """Make the call's row and set its money aside, or nothing.

        Raises:
            TenantNotFound, LaneClosed, InsufficientFunds: as they say; nothing was written.
            CommitOutcomeUnknown: it may have happened; settling finds out.
        """
        policy = self._policy_of("reserve_call")

        async def once(this: Try) -> None:
            await self._reserve(call, policy, this.attempt, budget=budget)

        await self._line.run(once, budget=budget, policy=policy, retryable=left_nothing)
        self._metrics.reserved(call.lane, call.amount, work=CALL)

    async def _reserve(self, call: NewCall, policy: Policy, attempt: int, *, budget: Budget) -> None:
        async with self._database.transaction(
            budget, policy, tenants=[call.tenant], attempt=attempt
        ) as transaction:
            row = await transaction.fetchrow(
                statement("reserve_call"),
                call.tenant,
                call.call_id,
                call.principal,
                call.model,
                call.time_left,
                call.lane,
                call.price_version,
                call.amount,
                call.worst_case,
            )
            assert row is not None, "reserve_call answers one row"
            _refuse_what_cannot_be(call, row)

    async def settle(self, settlement: Settlement, *, budget: Budget) -> Decimal | None:
        """Settle a call, once. Dollars that were captured; None when there was nothing left to settle."""
        policy = self._policy_of("settle_calls")
        async with self._database.transaction(budget, policy, tenants=[settlement.tenant]) as transaction:
            settled = (await settle_calls(transaction, [settlement])).get(settlement.call_id)
        if settled is None:
            return None
        self._metrics.settled(settlement, settled)
        return settled.captured


def _refuse_what_cannot_be(call: NewCall, row: Record) -> None:
    if not row["tenant_exists"]:
        raise TenantNotFound(call.tenant)
    if row["lane_closed_for"] is not None:
        raise LaneClosed(call.lane, closed_for=row["lane_closed_for"])
    if not row["funds_sufficed"]:
        raise InsufficientFunds(tenant=call.tenant, required=call.amount, available=row["available_before"])


async def settle_calls(transaction: Transaction, settlements: list[Settlement]) -> dict[UUID, SettledCall]:
    """Settles those that are not settled yet; answers them by call."""
    rows = await transaction.fetch(statement("settle_calls"), dump([each.to_json() for each in settlements]))
    return {
        row["id"]: SettledCall(lane=row["lane"], captured=row["captured"], released=row["released"])
        for row in rows
    }
