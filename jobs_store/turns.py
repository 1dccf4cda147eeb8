"""Whose turn it is when free slots are dealt to tenants: interleaved weighted round robin.

A cycle has as many rounds as the heaviest waiting tenant has weight; round n (from 0) gives a turn to each
tenant whose weight is above n, in the order of their ids (Katevenis, Sidiropoulos, Courcoubetis, 1991). So
each tenant has as many turns a cycle as it has weight, they do not come in one run, and nothing is kept about
any tenant: a claimer knows where it stopped. Each worker deals its own slots; together they keep the same
shares.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from budget.postgres import Record
from jobs_store.identifiers import TenantId

_NOBODY: Final = TenantId("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Where the dealing goes on.

    after_tenant: the tenant of the last turn; "" before the first one. round: the one that this turn was in.
    rounds: of the cycle, as far as they are known: everybody has a turn in its first round, which tells them.
    """

    after_tenant: TenantId = _NOBODY
    round: int = 0
    rounds: int = 1

    def after(self, claimed: Sequence[Record]) -> Self:
        """The turn behind those that a claim gave, in their order; without any, that of a new cycle."""
        if not claimed:
            return type(self)(after_tenant=self.after_tenant)
        last = claimed[-1]
        cycle, found = divmod(last["round"], last["rounds"])
        return type(self)(
            after_tenant=last["tenant_id"], round=found, rounds=found + 1 if cycle else last["rounds"]
        )
