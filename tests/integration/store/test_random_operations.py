"""Any operations in any order, by runs of the past and the present: after each one every invariant holds."""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from jobs_service.service.bulk import BulkPace
from jobs_store.attempts import AttemptEnd
from jobs_store.bulk import BulkAction, BulkOrder
from jobs_store.endings import Finish, Return, Verdict
from jobs_store.errors import JobNotFound, StoreError
from jobs_store.foresight import BulkOutcome
from jobs_store.identifiers import JobId, RunToken, TenantId
from jobs_store.job_search import JobsMeant
from jobs_store.lanes import LaneStore
from jobs_store.lifetimes import DAY, Lifetimes
from jobs_store.operator_decisions import Decision, Resolution
from jobs_store.operator_requests import OperatorRequest
from jobs_store.overview import Overview
from jobs_store.retention import Retention, RetentionTerms
from jobs_store.runs import FIRST_FREE_EVENT, Claimed
from jobs_store.states import ErrorClass, UnknownOutcomePolicy
from tests.bulk import decider_of, order, outcomes_of
from tests.integration.store.invariants import broken
from tests.integration.store.locks import Connection, superuser
from tests.postgres import TestServer
from tests.store import (
    CHARGE,
    LANE,
    LEASE,
    OVER,
    RESERVED,
    Store,
    acceptance_of,
    cancelled_end_of,
    decision_about,
    deltas_of,
    failed,
    failure_of,
    hold_of,
    open_store,
    policy_of,
    release_of,
    return_of,
    start_of,
    succeeded,
    time_enough,
    token_of,
)

TENANTS = [TenantId("acme"), TenantId("zeta")]
NOTHING = Lifetimes(
    payload=0.0, events=0.0, result=0.0, attempts=0.0, jobs=0.0, calls=0.0, quotes=0.0, audit=0.0
)
"""Nothing is kept."""
Answer = TypeVar("Answer")
Ending = TypeVar("Ending", Finish, Return)
Job = tuple[TenantId, JobId]


class Operations(RuleBasedStateMachine):
    """Callers, workers, zombies and a reaper over one database."""

    server: TestServer
    jobs = Bundle("jobs")
    runs = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.store: Store
        self.watching: Connection
        self.next_event: dict[RunToken, int] = {}
        self.started: dict[RunToken, int] = {}
        self.fundings = 0
        self.decided = 0
        self.do(self.open())

    def do(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return self.runner.run(work)

    async def open(self) -> None:
        database = await self.stack.enter_async_context(self.server.database())
        self.store = await self.stack.enter_async_context(open_store(database, pool=1))
        self.watching = await self.stack.enter_async_context(superuser(self.store))

    def teardown(self) -> None:
        self.do(self.stack.aclose())
        self.runner.close()

    @initialize(max_running=st.integers(0, 3), lane_limit=st.none() | st.integers(1, 4))
    def begin(self, max_running: int, lane_limit: int | None) -> None:
        for tenant in TENANTS:
            self.do(self.store.tenant(tenant, funds=3 * RESERVED, max_running=max_running))
        self.do(self.watching.execute("UPDATE hourglass.lanes SET max_running = $1", lane_limit))

    @rule(
        target=jobs,
        tenant=st.sampled_from(TENANTS),
        policy=st.sampled_from(UnknownOutcomePolicy),
        max_attempts=st.integers(1, 3),
        priority=st.integers(-2, 2),
        queue_timeout=st.sampled_from([0.0001, 3600.0]),
    )
    def create(
        self,
        tenant: TenantId,
        policy: UnknownOutcomePolicy,
        max_attempts: int,
        priority: int,
        queue_timeout: float,
    ) -> Any:
        try:
            job_id = self.do(
                self.store.create(
                    tenant,
                    unknown_outcome_policy=policy,
                    max_attempts=max_attempts,
                    priority=priority,
                    queue_timeout=queue_timeout,
                )
            )
        except StoreError as refused:
            note(refused.reason)
            return multiple()
        return (tenant, job_id)

    @rule(target=runs, slots=st.integers(1, 4), lease=st.sampled_from([LEASE, OVER]))
    def claim(self, slots: int, lease: float) -> Any:
        claimed = self.do(self.store.claim(slots, lease=lease))
        assert len(claimed) <= slots
        self.next_event.update((run.token, FIRST_FREE_EVENT) for run in claimed)
        return multiple(*claimed)

    @rule(run=runs)
    def start(self, run: Claimed) -> None:
        number = self.started.get(run.token, self.next_event[run.token])
        step = replace(start_of(run), event_number=number)
        (started,) = self.do(self.store.runs.start([step], budget=time_enough()))
        if started.verdict is Verdict.OK and run.token not in self.started:
            self.started[run.token] = number
            self.next_event[run.token] += 1

    @rule(run=runs)
    def append(self, run: Claimed) -> None:
        deltas = deltas_of(run, "a", "b", first_event=self.next_event[run.token])
        (verdict,) = self.do(self.store.runs.append([deltas], budget=time_enough()))
        if verdict in {Verdict.OK, Verdict.CANCEL_REQUESTED}:
            self.next_event[run.token] += 2

    @rule(run=runs)
    def renew(self, run: Claimed) -> None:
        self.do(self.store.runs.renew([token_of(run)], lease=LEASE, budget=time_enough()))

    @rule(run=runs, end=st.sampled_from([acceptance_of, acceptance_of, failure_of, cancelled_end_of]))
    def finish(self, run: Claimed, end: Any) -> None:
        self.do(self.store.runs.finish([self.numbered(end(run), run)], budget=time_enough()))

    def numbered(self, ending: Ending, run: Claimed) -> Ending:
        """An ending whose events follow those that the run has written."""
        return replace(ending, fence=replace(ending.fence, first_event=self.next_event[run.token]))

    @rule(run=runs)
    def accept_beyond_the_reservation(self, run: Claimed) -> None:
        ending = acceptance_of(run, charge=RESERVED + CHARGE)
        self.do(self.store.runs.finish([self.numbered(ending, run)], budget=time_enough()))

    @rule(run=runs, back=st.sampled_from([return_of, release_of, hold_of]))
    def requeue(self, run: Claimed, back: Any) -> None:
        if back is hold_of and run.token not in self.started:
            back = release_of  # what was not sent has no unknown outcome
        self.do(self.store.runs.requeue([self.numbered(back(run), run)], budget=time_enough()))

    @rule(run=runs, end=st.sampled_from([succeeded(), failed(ErrorClass.PERMANENT)]))
    def write_the_cost_of_a_lost_attempt(self, run: Claimed, end: AttemptEnd) -> None:
        store = self.store.runs
        self.do(store.record_lost_attempt(token_of(run), run.attempt_number, end, budget=time_enough()))

    @rule(job=jobs)
    def cancel(self, job: Job) -> None:
        cancellation = self.store.cancellation
        with suppress(JobNotFound):  # it was trimmed
            self.do(cancellation.cancel(*job, principal="ada", reason="", budget=time_enough()))

    @rule(job=jobs, again=st.booleans())
    def retry(self, job: Job, again: bool) -> None:
        self.decide(self.store.decisions.retry(self.decision(job, again), budget=time_enough()))

    @rule(job=jobs, resolution=st.sampled_from(Resolution), again=st.booleans())
    def resolve(self, job: Job, resolution: Resolution, again: bool) -> None:
        decision = self.decision(job, again)
        self.decide(self.store.decisions.resolve(decision, resolution, budget=time_enough()))

    @rule(job=jobs, again=st.booleans())
    def erase(self, job: Job, again: bool) -> None:
        self.decide(self.store.decisions.erase(self.decision(job, again), budget=time_enough()))

    def decision(self, job: Job, again: bool) -> Decision:
        """About a job, under a request_id of its own or the last one."""
        tenant, job_id = job
        self.decided += not again
        return decision_about(job_id, tenant=tenant, request_id=str(self.decided))

    def decide(self, deciding: Coroutine[Any, Any, bool]) -> None:
        try:
            self.do(deciding)
        except StoreError as refused:
            note(refused.reason)

    @rule(
        tenant=st.sampled_from(TENANTS),
        action=st.sampled_from(BulkAction),
        resolution=st.sampled_from(Resolution),
        again=st.booleans(),
    )
    def decide_about_all(
        self, tenant: TenantId, action: BulkAction, resolution: Resolution, again: bool
    ) -> None:
        """A dry run says what the run does, whatever has happened before."""
        self.decided += not again
        wanted = order(
            action,
            JobsMeant(tenant=tenant),
            request_id=str(self.decided),
            resolution=resolution if action is BulkAction.RESOLVE else None,
        )
        foretold = self.told(replace(wanted, dry_run=True))
        assert foretold == self.told(wanted)

    def told(self, wanted: BulkOrder) -> list[BulkOutcome] | str:
        try:
            return self.do(outcomes_of(decider_of(self.store, pace=BulkPace(size=2)), wanted))
        except StoreError as refused:
            return refused.reason

    @rule(paused=st.booleans())
    def pause_or_resume_the_lane(self, paused: bool) -> None:
        lanes = LaneStore(Overview(self.store.worker, policy_of))
        change = lanes.pause if paused else lanes.resume
        request = OperatorRequest(request_id=str(uuid4()), actor="ops", reason="")
        self.do(change(LANE, request, budget=time_enough()))

    @rule(kept=st.sampled_from([NOTHING, replace(NOTHING, result=DAY, attempts=DAY, jobs=DAY)]))
    def trim(self, kept: Lifetimes) -> None:
        terms = RetentionTerms(lifetimes=kept, interval=0.0, page_size=7, statements=1000)
        self.do(Retention(self.store.worker, policy_of, terms).trim(budget=time_enough()))

    @rule()
    def let_all_keys_end(self) -> None:
        self.do(
            self.watching.execute(
                "UPDATE hourglass.idempotency_keys SET expire_time = now() - interval '1 s'"
            )
        )

    @rule()
    def reap(self) -> None:
        self.do(self.store.reaper.reap(budget=time_enough()))

    @rule()
    def let_all_leases_and_holds_end(self) -> None:
        self.do(
            self.watching.execute(
                "UPDATE hourglass.jobs SET lease_until = now() - interval '1 s' WHERE state = 'RUNNING'"
            )
        )
        self.do(
            self.watching.execute(
                "UPDATE hourglass.jobs SET hold_until = now() - interval '1 s' WHERE state = 'HELD'"
            )
        )

    @rule(tenant=st.sampled_from(TENANTS), halves=st.integers(-2, 2).filter(bool), again=st.booleans())
    def fund(self, tenant: TenantId, halves: int, again: bool) -> None:
        self.fundings += not again
        with suppress(StoreError):
            self.do(
                self.store.tenants.fund(
                    tenant,
                    halves * RESERVED / 2,
                    request_id=str(self.fundings),
                    actor="ops",
                    reason="",
                    budget=time_enough(),
                )
            )

    @invariant()
    def every_invariant_holds(self) -> None:
        assert {} == self.do(broken(self.watching))


def examine(server: TestServer, *, examples: int, steps: int, derandomize: bool) -> None:
    run_state_machine_as_test(
        type("Operations", (Operations,), {"server": server}),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=derandomize,
            deadline=None,
            database=None,
            print_blob=True,
            # Shown as it was found: shrinking would replay it hundreds of times, each over a new database.
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.timeout(240)
@pytest.mark.scenario("M7")
def test_every_invariant_holds_after_any_operation(postgres_server: TestServer) -> None:
    examine(postgres_server, examples=12, steps=30, derandomize=True)


@pytest.mark.faults
@pytest.mark.timeout(900)
@pytest.mark.scenario("M7")
def test_every_invariant_holds_after_any_operation_in_long_random_runs(postgres_server: TestServer) -> None:
    examine(postgres_server, examples=75, steps=60, derandomize=False)
