"""The store as a worker uses it: claim, start step, renewal, events, acceptance and the other endings."""

from collections.abc import Sequence as Many
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from budget.core import Budget
from budget.policy import Policy
from budget.postgres import Database, Record
from jobs_store.attempts import AttemptEnd
from jobs_store.creation import PolicyOf
from jobs_store.decisions import Tally, Terms
from jobs_store.endings import Ended, Finish, Return, Verdict, finish_jobs, requeue_jobs
from jobs_store.events import NewEvent
from jobs_store.identifiers import JobId, RunToken, Sequence, TenantId, number_of
from jobs_store.new_job import SPEC_VERSION
from jobs_store.rate_card import RateCard
from jobs_store.statements import statement
from jobs_store.states import AttemptOutcome, UnknownOutcomePolicy
from jobs_store.stored_json import dump, load_array, load_object
from jobs_store.turns import Turn

FIRST_FREE_EVENT = 3
"""A claim writes the first two events of its epoch; the run goes on with this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """What a worker can take: `lanes` that it serves, `slots` that are free, its name and address.

    turn: that of the last claim, so that every tenant gets its turns.
    tenants: how many of a lane are looked at.
    """

    lanes: Many[str]
    slots: int
    worker_id: str
    worker_address: str
    lease: float
    turn: Turn
    tenants: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A job that this worker runs now, and all that it needs for that. Durations in seconds."""

    tenant: TenantId
    job_id: JobId
    token: RunToken
    epoch: int
    attempt_number: int
    claim_time: datetime
    last_sequence: int
    lane: str
    model: str
    provider: str
    principal: str
    traceparent: str
    tracestate: str
    create_time: datetime
    messages: Many[dict[str, str]]
    sampling: dict[str, Any]
    max_output_tokens: int
    attempt_timeout: float
    terms: Terms
    tally: Tally
    rate_card: RateCard
    provider_rate_card: RateCard
    input_token_bound: int
    input_token_estimate: int
    ready_time: datetime | None = None
    """When it could be claimed; None where nobody has claimed it now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dealt:
    """What a claim brought, and where the next one goes on."""

    runs: Many[Claimed]
    turn: Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A run that calls its provider now."""

    tenant: TenantId
    job_id: JobId
    token: RunToken
    event_number: int
    provider: str
    provider_model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What a start step came to; the time is that of the first one that was OK."""

    verdict: Verdict
    send_time: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A run's token, for renewal."""

    tenant: TenantId
    job_id: JobId
    token: RunToken


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequest:
    """A user's wish to cancel, as it stands in the row."""

    time: datetime
    principal: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Events of a run, from number `first_event` of its epoch on."""

    tenant: TenantId
    job_id: JobId
    token: RunToken
    epoch: int
    attempt_number: int
    first_event: int
    events: Many[NewEvent] = field(default_factory=tuple)


class RunStore:
    """The runs' side of the store, as the worker role. Every write is fenced by a run token and says what it
    hit."""

    def __init__(self, database: Database, policy_of: PolicyOf) -> None:
        self._database = database
        self._policy_of = policy_of

    async def register_lanes(self, lanes: Many[str], *, budget: Budget) -> None:
        """Make the lanes known that this worker serves."""
        await self._fetch("register_lanes", list(lanes), budget=budget)

    async def waiting_lanes(self, *, budget: Budget) -> list[str]:
        """The lanes in which jobs wait."""
        return [row["lane"] for row in await self._fetch("find_waiting_lanes", budget=budget)]

    async def claim(self, request: ClaimRequest, *, budget: Budget) -> Dealt:
        """Take up to `request.slots` ready jobs, fairly across tenants and within every limit, in turns.

        Fewer may come although more wait: claim again as long as any came and slots are free.
        """
        rows = await self._fetch(
            "claim_jobs",
            list(request.lanes),
            SPEC_VERSION,
            request.slots,
            request.worker_id,
            request.worker_address,
            request.lease,
            request.turn.after_tenant,
            request.tenants,
            request.turn.round,
            request.turn.rounds,
            budget=budget,
        )
        return Dealt(runs=[claimed_of(row) for row in rows], turn=request.turn.after(rows))

    async def start(self, starts: Many[Start], *, budget: Budget) -> list[Started]:
        """The start step: what comes after it may have cost money. Answers in order."""
        rows = await self._fetch("start_attempts", dump(_numbered(map(_start_json, starts))), budget=budget)
        return [Started(verdict=Verdict(row["verdict"]), send_time=row["send_time"]) for row in rows]

    async def renew(self, runs: Many[Held], *, lease: float, budget: Budget) -> list[Verdict]:
        """Renew leases; never waits for a row. LEASE_LOST only if an unlocked read lacks the token."""
        tenants, jobs, tokens = _columns(runs)
        rows = await self._fetch("renew_leases", tenants, jobs, tokens, lease, budget=budget)
        verdicts = [None if row["verdict"] == "ABSENT" else Verdict(row["verdict"]) for row in rows]
        absent = [run for run, verdict in zip(runs, verdicts, strict=True) if verdict is None]
        confirmed = iter(await self._confirm(absent, budget=budget) if absent else [])
        return [verdict or next(confirmed) for verdict in verdicts]

    async def append(self, appends: Many[Append], *, budget: Budget) -> list[Verdict]:
        """Append events of runs, each fenced by token and epoch. Answers in order."""
        rows = await self._fetch("append_events", dump(_numbered(map(_append_json, appends))), budget=budget)
        return [Verdict(row["verdict"]) for row in rows]

    async def finish(self, endings: Many[Finish], *, budget: Budget) -> list[Ended]:
        """Accept results or end jobs otherwise, and settle their money; each is all or nothing."""
        return await finish_jobs(self._single("finish_jobs", budget), endings)

    async def requeue(self, endings: Many[Return], *, budget: Budget) -> list[Ended]:
        """End attempts whose jobs go on."""
        policy = self._policy_of("requeue_jobs")
        async with self._database.transaction(budget, policy) as transaction:
            return await requeue_jobs(transaction, endings)

    async def park_lane(self, lane: str, *, duration: float, cause: str, budget: Budget) -> None:
        """Close a lane for all workers for `duration` seconds."""
        await self._fetch("park_lane", lane, duration, cause, budget=budget)

    async def record_lost_attempt(self, run: Held, number: int, end: AttemptEnd, *, budget: Budget) -> bool:
        """Write what an attempt cost whose lease was lost; tells whether its row took it."""
        rows = await self._fetch(
            "record_lost_attempt",
            run.tenant,
            run.job_id,
            number,
            run.token,
            end.provider_request_id,
            end.usage.input_tokens,
            end.usage.cached_input_tokens,
            end.usage.output_tokens,
            end.cost.amount,
            end.cost.basis,
            end.cost.worst_case,
            end.first_token_time,
            budget=budget,
        )
        return bool(rows[0]["hit"])

    async def outcome_of(self, run: Held, number: int, *, budget: Budget) -> AttemptOutcome | None:
        """What came of the run's own attempt (after a commit of unknown outcome); None: nothing written."""
        rows = await self._fetch(
            "read_attempt_outcome", run.tenant, run.job_id, number, run.token, budget=budget
        )
        return AttemptOutcome(rows[0]["outcome"]) if rows else None

    async def last_event(self, run: Held, epoch: int, *, budget: Budget) -> int:
        """The number of the last durable event in an epoch of the run's job; 0 when none is."""
        rows = await self._fetch("read_last_event", run.tenant, run.job_id, epoch, budget=budget)
        return number_of(Sequence(rows[0]["last_sequence"]))

    async def tally(self, run: Held, *, budget: Budget) -> Tally | None:
        """What has happened to the job so far, as it stands now; None when the run has lost its lease."""
        rows = await self._fetch("read_tally", run.tenant, run.job_id, run.token, budget=budget)
        return tally_of(rows[0]) if rows else None

    async def cancel_request(self, run: Held, *, budget: Budget) -> CancelRequest | None:
        """The wish to cancel this run's job, None when there is none or the run has lost its lease."""
        rows = await self._fetch("read_cancel_request", run.tenant, run.job_id, run.token, budget=budget)
        if not rows:
            return None
        return CancelRequest(
            time=rows[0]["cancel_request_time"],
            principal=rows[0]["cancel_principal"],
            reason=rows[0]["cancel_reason"] or "",
        )

    async def _confirm(self, runs: Many[Held], *, budget: Budget) -> list[Verdict]:
        rows = await self._fetch("confirm_tokens", *_columns(runs), budget=budget)
        return [Verdict(row["verdict"]) for row in rows]

    def _single(self, name: str, budget: Budget) -> "_Single":
        return _Single(database=self._database, budget=budget, policy=self._policy_of(name))

    async def _fetch(self, name: str, *arguments: object, budget: Budget) -> list[Record]:
        return await self._database.fetch(budget, self._policy_of(name), statement(name), *arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Single:
    """Runs one statement, which is its own transaction: its locks are free before its answer has arrived."""

    database: Database
    budget: Budget
    policy: Policy

    async def fetch(self, sql: str, *arguments: object) -> list[Record]:
        return await self.database.fetch(self.budget, self.policy, sql, *arguments)


def _columns(runs: Many[Held]) -> tuple[list[TenantId], list[JobId], list[RunToken]]:
    return [run.tenant for run in runs], [run.job_id for run in runs], [run.token for run in runs]


def _numbered(rows: "map[dict[str, object]]") -> list[dict[str, object]]:
    return [{"ordinal": ordinal, **row} for ordinal, row in enumerate(rows)]


def _start_json(start: Start) -> dict[str, object]:
    return {
        "tenant_id": start.tenant,
        "id": start.job_id,
        "run_token": start.token,
        "event": start.event_number,
        "attributes": {"provider": start.provider, "provider_model": start.provider_model},
    }


def _append_json(append: Append) -> dict[str, object]:
    return {
        "tenant_id": append.tenant,
        "id": append.job_id,
        "run_token": append.token,
        "epoch": append.epoch,
        "attempt_number": append.attempt_number,
        "first_event": append.first_event,
        "events": [event.to_json() for event in append.events],
    }


def terms_of(row: Record) -> Terms:
    """What the job was created with, of a row that joins its facts."""
    return Terms(
        max_attempts=row["max_attempts"],
        unknown_outcome_policy=UnknownOutcomePolicy(row["unknown_outcome_policy"]),
        attempt_worst_case=row["attempt_worst_case"],
        provider_cost_limit=row["provider_cost_limit"],
    )


def tally_of(row: Record) -> Tally:
    """What happened to the job so far, of a row of the jobs table."""
    return Tally(
        counted_attempts=row["counted_attempts"],
        crash_count=row["crash_count"],
        known_cost=Decimal(row["known_cost"]),
        unknown_cost=Decimal(row["unknown_cost"]),
        attempt_number=row["attempt_number"],
    )


def claimed_of(row: Record) -> Claimed:
    """A run, of a row that joins the facts and the payload of its job."""
    return Claimed(
        tenant=row["tenant_id"],
        job_id=row["id"],
        token=row["run_token"],
        epoch=row["epoch"],
        attempt_number=row["attempt_number"],
        claim_time=row["claim_time"],
        last_sequence=row["last_sequence"],
        lane=row["lane"],
        model=row["model"],
        provider=row["provider"],
        principal=row["principal"],
        traceparent=row["traceparent"],
        tracestate=row["tracestate"],
        create_time=row["create_time"],
        messages=load_array(row["messages"]),
        sampling=dict(load_object(row["sampling"])),
        max_output_tokens=row["max_output_tokens"],
        attempt_timeout=row["attempt_timeout"],
        terms=terms_of(row),
        tally=tally_of(row),
        rate_card=_card_of(row["rate_card"]),
        provider_rate_card=_card_of(row["provider_rate_card"]),
        input_token_bound=row["input_token_bound"],
        input_token_estimate=row["input_token_estimate"],
        ready_time=row.get("ready_time"),
    )


@lru_cache(maxsize=1024)
def _card_of(stored: str) -> RateCard:
    """Jobs of one model and price version share a card; reading it costs more than the rest of a row."""
    return RateCard.from_json(load_object(stored))
