"""Callers, workers, zombies, operators, a reaper and retention over one store, until told to stop."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final, TypeAlias, TypeVar
from uuid import uuid4

from jobs_store.attempts import ProviderCost
from jobs_store.calls import CallEnd, CallStore, NewCall, Settlement
from jobs_store.endings import Finish, Return, Verdict
from jobs_store.errors import StoreError
from jobs_store.identifiers import JobId, TenantId, new_call_id
from jobs_store.lifetimes import Lifetimes
from jobs_store.operator_decisions import Resolution
from jobs_store.retention import Retention, RetentionTerms
from jobs_store.runs import FIRST_FREE_EVENT, Claimed
from jobs_store.states import AttemptOutcome, UnknownOutcomePolicy
from tests.integration.store.locks import superuser
from tests.store import (
    CHARGE,
    LANE,
    LEASE,
    OVER,
    RESERVED,
    WORST_CASE,
    Store,
    acceptance_of,
    cancelled_end_of,
    decision_about,
    deltas_of,
    failure_of,
    hold_of,
    policy_of,
    release_of,
    return_of,
    seeded,
    start_of,
    succeeded,
    time_enough,
    token_of,
)

TENANTS: Final = [TenantId(name) for name in ("a", "b", "c")]
NOTHING: Final = Lifetimes(
    payload=0.0, events=0.0, result=0.0, attempts=0.0, jobs=0.0, calls=0.0, quotes=0.0, audit=0.0
)
"""Nothing is kept."""
_END_OLD_KEYS = """
UPDATE hourglass.idempotency_keys SET expire_time = now()
WHERE job_id IN (SELECT id FROM hourglass.finished_jobs ORDER BY id LIMIT 20)
"""

Act: TypeAlias = Callable[[], Awaitable[object]]
Ending = TypeVar("Ending", Finish, Return)


@dataclass(slots=True)
class Run:
    """A claim in the hands of one worker, which knows what it has written to the log."""

    claimed: Claimed
    next_event: int = FIRST_FREE_EVENT
    sent: bool = False

    def numbered(self, ending: Ending) -> Ending:
        """The ending after what is in the log."""
        return replace(ending, fence=replace(ending.fence, first_event=self.next_event))


@dataclass(slots=True)
class LiveLoad:
    """Everything that a system does to its store; every refusal is a typed one."""

    store: Store
    seed: int
    jobs: list[tuple[TenantId, JobId]] = field(default_factory=list)
    done: int = 0

    async def run(self, stop: asyncio.Event, *, workers: int = 3, callers: int = 2) -> None:
        """Ends when `stop` is set; then everybody finishes what they have in hand."""
        async with asyncio.TaskGroup() as group:
            for number in range(workers):
                group.create_task(_Worker(self, self.seed + number).run(stop))
            for number in range(callers):
                group.create_task(_Caller(self, self.seed + 100 + number).run(stop))
            group.create_task(self._keep(stop))

    async def _keep(self, stop: asyncio.Event) -> None:
        terms = RetentionTerms(lifetimes=NOTHING, interval=0.0, page_size=5, statements=20)
        retention = Retention(self.store.worker, policy_of, terms)
        while not stop.is_set():
            await self.store.reaper.reap(budget=time_enough())
            async with superuser(self.store) as connection:
                await connection.execute(_END_OLD_KEYS)
            await retention.trim(budget=time_enough())


class _Worker:
    """Claims and ends; what it leaves in hand ends late, as a zombie."""

    def __init__(self, load: LiveLoad, seed: int) -> None:
        self._load = load
        self._runs = load.store.runs
        self._chance = seeded(seed)
        self._left: list[Run] = []

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            lease = self._chance.choice([LEASE, LEASE, OVER])
            claimed = await self._load.store.claim(self._chance.randint(1, 4), lease=lease)
            self._left.extend(Run(each) for each in claimed)
            self._chance.shuffle(self._left)
            while len(self._left) > self._chance.randint(0, 4):
                await self._work(self._left.pop())
            await asyncio.sleep(0)

    async def _work(self, run: Run) -> None:
        if self._chance.random() < 0.8:
            await self._start(run)
        if self._chance.random() < 0.5:
            await self._append(run)
        if await self._end(run) is Verdict.OK:
            self._load.done += 1
        elif self._chance.random() < 0.5:
            number = run.claimed.attempt_number
            await self._runs.record_lost_attempt(
                token_of(run.claimed), number, succeeded(), budget=time_enough()
            )

    async def _start(self, run: Run) -> None:
        step = replace(start_of(run.claimed), event_number=run.next_event)
        (started,) = await self._runs.start([step], budget=time_enough())
        run.sent = started.verdict is Verdict.OK
        run.next_event += run.sent

    async def _append(self, run: Run) -> None:
        deltas = deltas_of(run.claimed, "a", "b", first_event=run.next_event)
        (verdict,) = await self._runs.append([deltas], budget=time_enough())
        run.next_event += 2 * (verdict in {Verdict.OK, Verdict.CANCEL_REQUESTED})

    async def _end(self, run: Run) -> Verdict:
        claimed = run.claimed
        finishes = [
            acceptance_of(claimed),
            acceptance_of(claimed, charge=RESERVED + CHARGE),
            failure_of(claimed),
            cancelled_end_of(claimed),
        ]
        returns = [return_of(claimed), hold_of(claimed)] if run.sent else [release_of(claimed)]
        if run.sent and self._chance.random() < 0.6:
            finish = run.numbered(self._chance.choice(finishes))
            (ended,) = await self._runs.finish([finish], budget=time_enough())
        else:
            back = run.numbered(self._chance.choice(returns))
            (ended,) = await self._runs.requeue([back], budget=time_enough())
        return ended.verdict


class _Caller:
    """Creates, cancels, decides, pays, and makes short calls."""

    def __init__(self, load: LiveLoad, seed: int) -> None:
        self._load = load
        self._store = load.store
        self._calls = CallStore(load.store.request, policy_of)
        self._chance = seeded(seed)

    async def run(self, stop: asyncio.Event) -> None:
        acts: list[Act] = [
            *(4 * [self._create]),
            self._cancel,
            self._decide,
            self._fund,
            self._call,
        ]
        while not stop.is_set():
            with suppress(StoreError):
                await self._chance.choice(acts)()

    async def _create(self) -> None:
        tenant = self._chance.choice(TENANTS)
        policy = self._chance.choice(list(UnknownOutcomePolicy))
        self._load.jobs.append((tenant, await self._store.create(tenant, unknown_outcome_policy=policy)))

    async def _cancel(self) -> None:
        tenant, job_id = self._chance.choice(self._load.jobs[-50:])
        await self._store.cancellation.cancel(tenant, job_id, principal="a", reason="", budget=time_enough())

    async def _decide(self) -> None:
        tenant, job_id = self._chance.choice(self._load.jobs[-50:])
        decision, decisions = decision_about(job_id, tenant=tenant), self._store.decisions
        choices: list[Act] = [
            lambda: decisions.retry(decision, budget=time_enough()),
            lambda: decisions.resolve(decision, Resolution.RETRY, budget=time_enough()),
            lambda: decisions.resolve(decision, Resolution.FAIL, budget=time_enough()),
            lambda: decisions.erase(decision, budget=time_enough()),
        ]
        await self._chance.choice(choices)()

    async def _fund(self) -> None:
        amount = Decimal(self._chance.choice([-1, 1, 2])) * RESERVED
        await self._store.tenants.fund(
            self._chance.choice(TENANTS),
            amount,
            request_id=str(uuid4()),
            actor="ops",
            reason="",
            budget=time_enough(),
        )

    async def _call(self) -> None:
        call = NewCall(
            tenant=self._chance.choice(TENANTS),
            call_id=new_call_id(),
            principal="ada",
            model="fast",
            lane=LANE,
            time_left=60.0,
            price_version="1",
            amount=RESERVED,
            worst_case=WORST_CASE,
        )
        await self._calls.reserve(call, budget=time_enough())
        end = CallEnd(
            outcome=AttemptOutcome.UNKNOWN,
            cause="WORKER_GONE",
            charge=self._chance.choice([Decimal(0), RESERVED, 2 * RESERVED]),
            cost=ProviderCost.unknown(WORST_CASE),
        )
        if self._chance.random() < 0.8:
            settlement = Settlement(tenant=call.tenant, call_id=call.call_id, end=end)
            await self._calls.settle(settlement, budget=time_enough())
