"""Held jobs whose provider may still know what became of their attempt."""

from collections.abc import Sequence as Many
from dataclasses import dataclass

from budget.core import Budget
from budget.postgres import Database
from jobs_store.creation import PolicyOf
from jobs_store.new_job import SPEC_VERSION
from jobs_store.runs import Claimed, claimed_of
from jobs_store.statements import statement


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRun:
    """The attempt that put its job on hold, without the payload. Its token is what the provider knows it by.

    delivered_length, delivered_tokens: code points and tokens of the answer that stand in the log.
    """

    run: Claimed
    delivered_length: int
    delivered_tokens: int


class LookUpStore:
    """Takes look-ups, as the worker role."""

    def __init__(self, database: Database, policy_of: PolicyOf) -> None:
        self._database = database
        self._policy_of = policy_of

    async def take(
        self, providers: Many[str], *, interval: float, most: int, budget: Budget
    ) -> list[HeldRun]:
        """Up to `most` held jobs of these providers that nobody has looked up for `interval` seconds."""
        policy = self._policy_of("take_look_ups")
        rows = await self._database.fetch(
            budget, policy, statement("take_look_ups"), list(providers), interval, most, SPEC_VERSION
        )
        return [
            HeldRun(
                run=claimed_of(row),
                delivered_length=row["delivered_length"],
                delivered_tokens=row["delivered_tokens"],
            )
            for row in rows
        ]
