"""Deletes what has been kept for long enough: bounded statements, each by itself, found by index.

Never of an unfinished job, never unsettled money, never a live key. All processes share one pass over the
tenants: whoever finds it due takes the next few. What dies with a process is left to the next pass.
"""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

import structlog

from budget.core import Budget
from budget.postgres import Database, Record
from jobs_store.creation import PolicyOf
from jobs_store.lifetimes import DAY, Lifetimes
from jobs_store.statements import statement
from jobs_store.stored_json import load_array

NO_TENANT: Final = "*"
"""Whose rows of the audit log are about no single tenant."""
KEYS: Final = "keys"
PARTITIONS: Final = "partitions"
KEY_EXTENSION: Final = DAY
"""Seconds that a key lives longer when its job has its payload yet."""

_STATEMENTS: Final[Mapping[str, str]] = {
    "payload": "trim_payloads",
    "events": "trim_events",
    "result": "trim_results",
    "attempts": "trim_attempts",
    "jobs": "trim_jobs",
    "calls": "trim_calls",
    "quotes": "trim_quotes",
    "audit": "trim_audit_log",
}
"""By class, in this order: each lets the next one go."""
_BEFORE_ALL: Final = UUID(int=0)

_log = structlog.stdlib.get_logger("hourglass.retention")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionTerms:
    """lifetimes: where a tenant has none of its own. interval: seconds between two passes.

    page_size: rows that one statement looks at and deletes at most. tenants: taken at once.
    statements: carried out by one call.
    """

    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    interval: float = 3600.0
    page_size: int = 500
    tenants: int = 20
    statements: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmed:
    """Rows deleted, by class (`keys` and `partitions` among them). `more`: the pass goes on."""

    rows: Mapping[str, int]
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What comes next of a class: the rows of a tenant after this one."""

    kind: str
    tenant: str = NO_TENANT
    lifetime: float = 0.0
    after: UUID = _BEFORE_ALL


class Retention:
    """Trims as the worker role, and keeps what it has taken in hand between two calls."""

    def __init__(self, database: Database, policy_of: PolicyOf, terms: RetentionTerms) -> None:
        self._database = database
        self._policy_of = policy_of
        self._terms = terms
        self._steps: deque[_Step] = deque()
        self._pass_goes_on = False

    async def trim(self, *, budget: Budget) -> Trimmed:
        """Carries out a few statements: of what is in hand, or else of what is due.

        A step that fails is left to the next pass; its error is raised.
        """
        if not self._steps:
            await self._take_turn(budget=budget)
        deleted: Counter[str] = Counter()
        for _ in range(self._terms.statements):
            if not self._steps:
                break
            step = self._steps.popleft()
            deleted[step.kind] += await self._carry_out(step, budget=budget)
        rows = {kind: count for kind, count in deleted.items() if count}
        return Trimmed(rows=rows, more=bool(self._steps) or self._pass_goes_on)

    async def _take_turn(self, *, budget: Budget) -> None:
        """Takes the next tenants and, with the last ones, what is about no tenant."""
        turns = await self._fetch(
            "take_retention_turn", self._terms.tenants, self._terms.interval, budget=budget
        )
        self._pass_goes_on = any(not turn["ends"] for turn in turns)
        for turn in turns:
            for tenant in load_array(turn["tenants"]):
                self._steps.extend(self._steps_of(tenant))
            if turn["ends"]:
                audit = _Step(kind="audit", lifetime=self._terms.lifetimes.audit)
                self._steps.extend([audit, _Step(kind=KEYS), _Step(kind=PARTITIONS)])

    def _steps_of(self, tenant: Mapping[str, Any]) -> list[_Step]:
        name, lifetimes = tenant["tenant_id"], self._terms.lifetimes
        try:
            lifetimes = lifetimes.overridden(tenant["retention"])
        except (ValueError, TypeError) as error:
            # Nothing of it is deleted by a rule that nobody meant.
            _log.error("retention of a tenant is not understood", tenant=name, error=str(error))
            return []
        return [_Step(kind=kind, tenant=name, lifetime=getattr(lifetimes, kind)) for kind in _STATEMENTS]

    async def _carry_out(self, step: _Step, *, budget: Budget) -> int:
        """Answers how many rows went; what is left of the step comes next."""
        match step.kind:
            case "keys":
                return await self._trim_keys(step, budget=budget)
            case "partitions":
                return await self._drop_partition(step, budget=budget)
            case _:
                return await self._trim_rows(step, budget=budget)

    async def _trim_rows(self, step: _Step, *, budget: Budget) -> int:
        size = self._terms.page_size
        (row,) = await self._fetch(
            _STATEMENTS[step.kind], step.tenant, step.lifetime, step.after, size, budget=budget
        )
        if row["looked_at"]:
            self._steps.appendleft(_rest(step, row, size))
        return int(row["trimmed"])

    async def _trim_keys(self, step: _Step, *, budget: Budget) -> int:
        size = self._terms.page_size
        (row,) = await self._fetch("trim_idempotency_keys", size, KEY_EXTENSION, budget=budget)
        if row["looked_at"] == size:
            self._steps.appendleft(step)
        return int(row["trimmed"])

    async def _drop_partition(self, step: _Step, *, budget: Budget) -> int:
        (row,) = await self._fetch("drop_empty_partition", budget=budget)
        if row["dropped"] is None:
            return 0
        _log.info("partition dropped", partition=row["dropped"])
        self._steps.appendleft(step)
        return 1

    async def _fetch(self, name: str, *arguments: object, budget: Budget) -> list[Record]:
        return await self._database.fetch(budget, self._policy_of("trim"), statement(name), *arguments)


def _rest(step: _Step, row: Record, size: int) -> _Step:
    """What was looked at and stays is passed over; a full page may have left rows of those looked at."""
    return step if row["trimmed"] >= size else replace(step, after=row["last"])
