"""Callers: each job is created until it is acknowledged, written down, and seen through to its end."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from hourglass.jobs.v1 import job_pb2 as job_pb
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from servicekit.wire_money import money_of
from tests.torture.calls import Calls, Refused
from tests.torture.funds import Funds
from tests.torture.kinds import Kind
from tests.torture.member import Away
from tests.torture.operators import Operator
from tests.torture.plan import Plan
from tests.torture.planned_jobs import Submission
from tests.torture.tally import Tally
from tests.torture.watchers import Watchers

INSUFFICIENT_FUNDS: Final = "INSUFFICIENT_FUNDS"
REFUSED_PAUSE: Final = 0.3
WAIT_LIMIT: Final = 4.0
GENEROUS: Final = Decimal(10)
_OUTCOMES: Final = pb.CancelOutcome


@dataclass(slots=True, kw_only=True)
class Acknowledged:
    """A job that a server has answered for: it must exist for ever.

    cancelled: what CancelJob promised. final: the state that its caller saw last.
    """

    submission: Submission
    job_id: str
    cancelled: str = ""
    final: int = job_pb.JOB_STATE_UNSPECIFIED


class Submitters:
    """All callers. `acknowledged`: by number; `open`: the numbers of jobs that are not seen through yet."""

    def __init__(self, plan: Plan, calls: Calls, funds: Funds, watchers: Watchers, tally: Tally) -> None:
        self.acknowledged: dict[int, Acknowledged] = {}
        self.open: set[int] = {each.number for each in (*plan.submissions, *plan.probes)}
        self._plan = plan
        self._calls = calls
        self._funds = funds
        self._watchers = watchers
        self._tally = tally
        self._operator = Operator(calls, funds, tally)

    async def run(self) -> None:
        """All jobs, each at its time, to their ends."""
        async with asyncio.TaskGroup() as group:
            for submission in self._plan.submissions:
                await asyncio.sleep(max(0.0, submission.at - self._tally.elapsed))
                group.create_task(self.see_through(submission), name=submission.key)

    def unfinished(self) -> Sequence[str]:
        """For a reader: what is not seen through, and where it stands."""
        return [
            f"job-{number} is not acknowledged"
            if (known := self.acknowledged.get(number)) is None
            else f"job-{number}, {known.job_id}, was last seen {job_pb.JobState.Name(_state_of(known))}"
            for number in sorted(self.open)
        ]

    async def see_through(self, submission: Submission) -> None:
        """One job, from its create to its end."""
        try:
            known = await self._create(submission)
        except Refused as refused:
            return self._tally.breach(f"{submission.key} cannot be created: {refused}")
        async with asyncio.TaskGroup() as group:
            for watch in submission.watches:
                group.create_task(self._watchers.watch(submission.tenant, known.job_id, watch))
            if submission.replay is not None:
                group.create_task(self._replay(known, submission.replay))
            if submission.cancel is not None:
                group.create_task(self._cancel(known, submission.cancel))
            group.create_task(self._tend(known))
        self.open.discard(submission.number)
        return None

    async def _create(self, submission: Submission) -> Acknowledged:
        """Raises Refused when it is refused for anything but money."""
        if submission.abandoned is not None:
            await self._abandon(submission, submission.abandoned)
        if submission.twin:
            await self._create_twice(submission)
        return await self._create_at(submission, submission.server)

    async def _create_at(self, submission: Submission, server: int) -> Acknowledged:
        request = create_request(submission)
        while True:
            try:
                answer = await self._calls.jobs("CreateJob", submission.tenant, request, server=server)
                return self._acknowledge(submission, answer)
            except Refused as refused:
                if refused.reason != INSUFFICIENT_FUNDS:
                    raise
            self._funds.refusals += 1
            await asyncio.sleep(REFUSED_PAUSE)

    def _acknowledge(self, submission: Submission, answer: pb.CreateJobResponse) -> Acknowledged:
        job_id = answer.job.job_id
        known = self.acknowledged.setdefault(
            submission.number, Acknowledged(submission=submission, job_id=job_id)
        )
        if known.job_id != job_id:
            self._tally.breach(f"{submission.key} is job {known.job_id} and job {job_id}")
        if answer.replayed:
            self._tally.note("creates that found their job")
        return known

    async def _abandon(self, submission: Submission, after: float) -> None:
        """A caller that leaves: whether there is a job now, the next try tells."""
        try:
            call = self._calls.try_jobs(
                "CreateJob", submission.tenant, create_request(submission), server=submission.server
            )
        except Away:
            call = None
        await asyncio.sleep(after)
        if call is not None and call.cancel():
            self._tally.strike(Kind.ABANDON_CREATE, submission.key)

    async def _create_twice(self, submission: Submission) -> None:
        async with asyncio.TaskGroup() as group:
            both = [group.create_task(self._create_at(submission, server)) for server in (0, 1)]
        if len({each.result().job_id for each in both}) == 1:
            self._tally.strike(Kind.TWIN_CREATE, submission.key)

    async def _replay(self, known: Acknowledged, after: float) -> None:
        """The same again, from elsewhere; and, if planned, another spec under the same key."""
        await asyncio.sleep(after)
        submission = known.submission
        server = submission.server + 1
        try:
            answer = await self._calls.jobs(
                "CreateJob", submission.tenant, create_request(submission), server=server
            )
        except Refused as refused:
            return self._tally.breach(f"a replay of {submission.key} was refused: {refused}")
        if (answer.job.job_id, answer.replayed) != (known.job_id, True):
            self._tally.breach(f"a replay of {submission.key} made {answer.job.job_id}, not {known.job_id}")
        self._tally.strike(Kind.REPLAY_CREATE, submission.key)
        if submission.reused:
            await self._reuse(submission)
        return None

    async def _reuse(self, submission: Submission) -> None:
        request = create_request(submission)
        request.spec.max_output_token_count += 1
        try:
            await self._calls.jobs("CreateJob", submission.tenant, request, server=submission.server)
        except Refused as refused:
            if refused.reason == "IDEMPOTENCY_KEY_REUSED":
                return self._tally.strike(Kind.REUSE_KEY, submission.key)
        return self._tally.breach(f"another spec under {submission.key} was not refused as such")

    async def _cancel(self, known: Acknowledged, after: float) -> None:
        await asyncio.sleep(after)
        request = pb.CancelJobRequest(job_id=known.job_id, reason="torture")
        tenant, server = known.submission.tenant, known.submission.server
        try:
            answer = await self._calls.jobs("CancelJob", tenant, request, server=server)
        except Refused as refused:
            return self._tally.breach(f"a cancel of {known.job_id} was refused: {refused}")
        outcome = _OUTCOMES.Name(answer.outcome).removeprefix("CANCEL_OUTCOME_")
        self._tally.note(f"cancel answered {outcome}")
        if outcome != "ALREADY_TERMINAL":
            known.cancelled = outcome
            self._tally.strike(Kind.CANCEL, f"{known.job_id}: {outcome}")
        return None

    async def _tend(self, known: Acknowledged) -> None:
        """Wait for its end, and decide what only an operator can."""
        decided = 0
        while True:
            job = await self._state(known)
            known.final = job.state
            match job.state:
                case job_pb.JOB_STATE_SUCCEEDED | job_pb.JOB_STATE_CANCELLED | job_pb.JOB_STATE_EXPIRED:
                    return
                case job_pb.JOB_STATE_FAILED if not await self._operator.retry(known, decided):
                    return
                case job_pb.JOB_STATE_FAILED:
                    decided += 1
                case job_pb.JOB_STATE_HELD:
                    await asyncio.sleep(known.submission.patience)
                    decided += await self._operator.resolve(known, decided)
                case _:
                    pass

    async def _state(self, known: Acknowledged) -> job_pb.Job:
        request = pb.WaitJobRequest(job_id=known.job_id)
        try:
            answer = await self._calls.jobs(
                "WaitJob",
                known.submission.tenant,
                request,
                server=known.submission.server,
                limit=WAIT_LIMIT,
            )
        except Refused as refused:
            self._tally.breach(f"{known.job_id} was acknowledged and cannot be waited for: {refused}")
            raise
        job: job_pb.Job = answer.job
        return job


def _state_of(known: Acknowledged) -> job_pb.JobState.ValueType:
    return job_pb.JobState.ValueType(known.final)


def create_request(submission: Submission) -> pb.CreateJobRequest:
    """What is asked for: the same each time."""
    spec = job_pb.JobSpec(
        model=submission.model,
        messages=[job_pb.Message(role=job_pb.ROLE_USER, content=submission.prompt)],
        max_output_token_count=submission.max_output_tokens,
        max_attempt_count=submission.max_attempts,
        unknown_outcome_policy=job_pb.UnknownOutcomePolicy.Value(
            f"UNKNOWN_OUTCOME_POLICY_{submission.policy}"
        ),
        priority=submission.priority,
        labels={"number": str(submission.number)},
    )
    if submission.generous:
        spec.provider_cost_limit.CopyFrom(money_of(GENEROUS))
    return pb.CreateJobRequest(idempotency_key=submission.key, spec=spec)
