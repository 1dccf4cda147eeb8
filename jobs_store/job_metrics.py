"""What the job model is judged by, counted at the commit that makes it true, in the process that did it.

By provider and model, never by tenant or job: there are as many series as lanes, outcomes and causes.
A commit whose answer was lost is counted by whoever finds out that it holds; where nobody looks, it is not.
The database has the truth to the unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opentelemetry import metrics

from jobs_store.attempts import LEASE_EXPIRED
from jobs_store.endings import Finish, Verdict
from jobs_store.lane_labels import LaneLabels
from jobs_store.states import AttemptOutcome, CostBasis, JobState

if TYPE_CHECKING:
    from collections.abc import Iterable
    from decimal import Decimal

    from jobs_store.attempts import AttemptEnd, ProviderCost
    from jobs_store.calls import SettledCall, Settlement
    from jobs_store.endings import Ended, Return
    from jobs_store.rate_card import Usage

JOB: Final = "job"
CALL: Final = "call"
"""The kinds of work that money is spent on: a job, or a short call."""


class JobMetrics:
    """Counters of jobs, attempts, calls and money. Made as often as it is needed: the counts are shared."""

    def __init__(self, meter: metrics.Meter | None = None) -> None:
        meter = meter or metrics.get_meter("hourglass.jobs")
        self._labels = LaneLabels()
        count = meter.create_counter
        self._created = count(
            "hourglass.jobs.created", unit="{job}", description="Jobs whose create committed"
        )
        self._accepted = count(
            "hourglass.jobs.accepted", unit="{job}", description="Jobs whose result was accepted"
        )
        self._ended = count(
            "hourglass.jobs.ended", unit="{job}", description="Jobs that ended, by state and cause"
        )
        self._lease_expired = count(
            "hourglass.jobs.lease_expired",
            unit="{attempt}",
            description="Attempts that a reaper ended because their lease was over",
        )
        self._attempts = count(
            "hourglass.provider.attempts", unit="{attempt}", description="Attempts whose end was written"
        )
        self._unknown = count(
            "hourglass.provider.unknown_outcomes",
            unit="{attempt}",
            description="Attempts that may have run and been billed although nobody has their answer",
        )
        self._cost = count(
            "hourglass.provider.cost",
            unit="USD",
            description="What attempts and calls cost the operator; of basis UNKNOWN: at worst",
        )
        self._tokens = count("hourglass.provider.tokens", unit="{token}", description="Tokens in and out")
        self._calls = count(
            "hourglass.calls.ended", unit="{call}", description="Short calls that were settled, by their end"
        )
        self._reserved = count("hourglass.money.reserved", unit="USD", description="Money set aside")
        self._captured = count("hourglass.money.captured", unit="USD", description="Money that tenants paid")
        self._released = count("hourglass.money.released", unit="USD", description="Money given back")
        self._overrun = count(
            "hourglass.money.overrun", unit="USD", description="What charges exceeded their reservations by"
        )

    def created(self, lane: str, reserved: Decimal) -> None:
        """A job was made and its money set aside."""
        self._created.add(1, self._labels.of(lane))
        self.reserved(lane, reserved, work=JOB)

    def reserved(self, lane: str, amount: Decimal, *, work: str) -> None:
        """Money was set aside for a job or a call."""
        self._reserved.add(float(amount), {**self._labels.of(lane), "work": work})

    def written(self, endings: Iterable[tuple[Finish | Return, Ended]]) -> None:
        """Endings were committed; those that hit nothing are no endings."""
        for write, ended in endings:
            if ended.verdict is Verdict.OK:
                self._attempt(write.attempt, ended)
                if isinstance(write, Finish):
                    self._finished(write, ended)

    def late_cost(self, lane: str, attempt: AttemptEnd) -> None:
        """An attempt that somebody else had ended told what it cost."""
        self._spent(lane, attempt.cost, attempt.usage, work=JOB)

    def settled(self, settlement: Settlement, call: SettledCall) -> None:
        """A short call was settled."""
        end, labels = settlement.known_end, self._labels.of(call.lane)
        self._calls.add(1, {**labels, "outcome": end.outcome, "cause": end.cause})
        self._spent(call.lane, end.cost, end.usage, work=CALL)
        self._paid(call.lane, captured=call.captured, released=call.released, charge=end.charge, work=CALL)

    def _finished(self, finish: Finish, ended: Ended) -> None:
        labels = self._labels.of(ended.lane)
        self._ended.add(1, {**labels, "state": finish.state, "cause": finish.cause})
        if finish.state is JobState.SUCCEEDED:
            self._accepted.add(1, {**labels, "retry": _is_retry(ended)})
        self._paid(
            ended.lane, captured=ended.captured, released=ended.released, charge=finish.charge, work=JOB
        )

    def _attempt(self, attempt: AttemptEnd | None, ended: Ended) -> None:
        if attempt is None:
            return
        labels = self._labels.of(ended.lane)
        self._attempts.add(1, {**labels, "outcome": attempt.outcome, "retry": _is_retry(ended)})
        if attempt.outcome is AttemptOutcome.UNKNOWN:
            self._unknown.add(1, {**labels, "cause": attempt.cause})
        if attempt.cause == LEASE_EXPIRED:
            self._lease_expired.add(1, {**labels, "outcome": attempt.outcome})
        self._spent(ended.lane, attempt.cost, attempt.usage, work=JOB)

    def _spent(self, lane: str, cost: ProviderCost, usage: Usage, *, work: str) -> None:
        labels = {**self._labels.of(lane), "work": work}
        if cost.basis is not None:
            amount = cost.worst_case if cost.basis is CostBasis.UNKNOWN else cost.amount
            self._cost.add(float(amount), {**labels, "basis": cost.basis})
        counts = {
            "input": usage.input_tokens,
            "cached_input": usage.cached_input_tokens,
            "output": usage.output_tokens,
        }
        for kind, count in counts.items():
            if count:
                self._tokens.add(count, {**labels, "kind": kind})

    def _paid(self, lane: str, *, captured: Decimal, released: Decimal, charge: Decimal, work: str) -> None:
        labels = {**self._labels.of(lane), "work": work}
        self._captured.add(float(captured), labels)
        self._released.add(float(released), labels)
        if charge > captured:
            self._overrun.add(float(charge - captured), labels)


def _is_retry(ended: Ended) -> str:
    return "true" if ended.earlier_attempts > 0 else "false"
