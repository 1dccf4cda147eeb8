"""What must be true of the facts when a run has ended. Pure: each check answers what breaks it."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

from hourglass.jobs.v1.event_pb2 import JobEvent
from hourglass.jobs.v1.job_pb2 import JobState
from jobs_store.rate_card import RateCard, Usage
from model_servers.simulated.behaviour import behaviour_of
from model_servers.simulated.text import Prompt, answer_tokens
from tests.torture.facts import Facts, Row
from tests.torture.submitters import Acknowledged
from tests.torture.watchers import Watched

TERMINAL: Final = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})
"""Where a job of a run may end; none waits in the queue for a day."""
CLOCK_TOLERANCE: Final = 0.002
"""Seconds: both clocks are the machine's."""
NOTHING: Final = Decimal(0)


def jobs_are_those_acknowledged(facts: Facts, acknowledged: Sequence[Acknowledged]) -> Iterator[str]:
    """Every acknowledged job exists, and no other does."""
    there = {row["job_id"] for row in facts.jobs}
    known = {each.job_id: each.submission.key for each in acknowledged}
    yield from (f"{key}, job {job_id}, is lost" for job_id, key in known.items() if job_id not in there)
    yield from (f"job {job_id} was never acknowledged" for job_id in there - set(known))


def jobs_are_ended(facts: Facts) -> Iterator[str]:
    """All jobs are terminal, and where their callers saw them end."""
    for row in facts.jobs:
        if row["state"] not in TERMINAL:
            yield f"job {row['job_id']} is {row['state']}/{row['state_cause']}"


def callers_saw_the_end(facts: Facts, acknowledged: Sequence[Acknowledged]) -> Iterator[str]:
    """What callers were told last is what is; a cancel that was promised happened, and no other did."""
    states = {row["job_id"]: row["state"] for row in facts.jobs}
    for each in acknowledged:
        state = states.get(each.job_id)
        told = JobState.Name(JobState.ValueType(each.final)).removeprefix("JOB_STATE_")
        if told != state:
            yield f"job {each.job_id} was last seen {told} and is {state}"
        if each.cancelled and state != "CANCELLED":
            yield f"job {each.job_id}: CancelJob answered {each.cancelled}, and it is {state}"
        if state == "CANCELLED" and each.submission.cancel is None:
            yield f"job {each.job_id} is CANCELLED, and nobody asked for that"


def results_are_accepted_once(facts: Facts) -> Iterator[str]:
    """A job that succeeded has one acceptance, one successful attempt and one capture; others have none."""
    for row in facts.jobs:
        job_id, wanted = row["job_id"], int(row["state"] == "SUCCEEDED")
        accepted = _count(facts.events[job_id], kind="RESULT_ACCEPTED")
        succeeded = _count(facts.attempts[job_id], outcome="SUCCEEDED")
        settled = _count(facts.reservations[job_id], settle_cause="ACCEPTED")
        result = int(row["text"] is not None)
        if {accepted, succeeded, settled, result} != {wanted}:
            yield (
                f"job {job_id} is {row['state']} with {accepted} acceptances, {succeeded} successful "
                f"attempts, {settled} settled as accepted, {result} results"
            )


def results_are_the_answers(facts: Facts) -> Iterator[str]:
    """The text is, to the letter, what the provider says to this prompt, and so is the log of its attempt."""
    for row in facts.jobs:
        if row["state"] != "SUCCEEDED":
            continue
        if row["text"] != expected_answer(row):
            yield f"job {row['job_id']}: its result is not the answer to its question: {row['text']!r}"
        streamed = _streamed(facts.events[row["job_id"]], row["attempt_number"])
        if row["text"] != streamed:
            yield f"job {row['job_id']}: its result is {row['text']!r}, its log tells {streamed!r}"


def expected_answer(row: Row) -> str:
    """What the simulated provider says to the one message of a job."""
    prompt = Prompt(
        contents=(f"Question {row['number']}.",), max_tokens=int(row["max_output_tokens"]), seed=0
    )
    return "".join(answer_tokens(prompt, behaviour_of(row["model"]).tokens))


def captures_are_priced_by_the_stored_card(facts: Facts) -> Iterator[str]:
    """What succeeded is captured at the card that stands on the job; what failed costs its tenant nothing."""
    for row in facts.jobs:
        captured = sum((each["captured"] for each in facts.reservations[row["job_id"]]), NOTHING)
        if row["state"] == "SUCCEEDED":
            usage = Usage(
                input_tokens=row["input_tokens"],
                output_tokens=row["output_tokens"],
                cached_input_tokens=row["cached_input_tokens"],
            )
            amount = RateCard.from_json(json.loads(row["rate_card"])).amount(usage)
            most = max(each["amount"] for each in facts.reservations[row["job_id"]])
            if captured != min(amount, most):
                yield f"job {row['job_id']}: {captured} was captured, its usage is worth {amount}"
        elif row["state"] == "FAILED" and captured:
            yield f"job {row['job_id']} FAILED, and {captured} was captured"


def reservations_are_settled(facts: Facts) -> Iterator[str]:
    """No money is set aside any more."""
    for job_id, reservations in facts.reservations.items():
        for each in reservations:
            if each["settle_time"] is None:
                yield f"job {job_id}: reservation {each['number']} over {each['amount']} is open"
            elif each["amount"] != each["captured"] + each["released"]:
                yield f"job {job_id}: reservation {each['number']} does not add up"


def funds_balance(facts: Facts, moved: Mapping[str, Decimal]) -> Iterator[str]:
    """To the last unit: what was moved in is there or was captured, and nothing is reserved."""
    captured: Counter[str] = Counter()
    for reservations in facts.reservations.values():
        for each in reservations:
            captured[each["tenant_id"]] += each["captured"]
    for row in facts.funds:
        tenant = row["tenant_id"]
        expected = (moved[tenant], moved[tenant] - captured[tenant], NOTHING, captured[tenant])
        found = (row["funded"], row["available"], row["reserved"], row["captured"])
        if expected != found:
            yield f"funds of {tenant} (funded, available, reserved, captured): {found}, expected {expected}"


def counters_are_zero(facts: Facts) -> Iterator[str]:
    """Nobody runs or waits, and the counters know."""
    for row in facts.counters:
        if row["running"] or row["queued"]:
            yield f"{row['name']} counts {row['running']} running and {row['queued']} queued"


def wire_calls_are_attempts(facts: Facts) -> Iterator[str]:
    """One request at the provider is one attempt with a send time before it, and never two requests."""
    attempts = {each["run_token"]: each for many in facts.attempts.values() for each in many}
    calls = Counter(request["key"] for request in facts.requests)
    yield from (f"the provider was asked {n} times under {key}" for key, n in calls.items() if n > 1)
    for request in facts.requests:
        attempt = attempts.get(request["key"])
        if attempt is None or attempt["send_time"] is None:
            yield f"the provider was asked under {request['key']}, no attempt that was sent: {attempt}"
        elif attempt["send_time"] > request["received_time"] + CLOCK_TOLERANCE:
            yield f"attempt {attempt['number']} of {attempt['job_id']} was sent before its start step"
        if request["state"] == "open":
            yield f"the provider's answer under {request['key']} is still open"


def successes_were_answered(facts: Facts) -> Iterator[str]:
    """A successful attempt has its whole answer in the provider's log, or one that it kept."""
    calls = {request["key"]: request for request in facts.requests}
    for attempts in facts.attempts.values():
        for each in attempts:
            call = calls.get(each["run_token"])
            if each["outcome"] == "SUCCEEDED" and (call is None or not _answered(call)):
                yield f"attempt {each['number']} of {each['job_id']} succeeded, the provider says {call}"


def watchers_saw_the_log(facts: Facts, watched: Sequence[Watched]) -> Iterator[str]:
    """What a watcher kept is the log itself, up to where it stopped: once, in order, nothing left out."""
    for each in watched:
        last = each.events[-1].sequence
        log = [
            (row["sequence"], row["kind"], row["text"])
            for row in facts.events[each.job_id]
            if row["sequence"] <= last
        ]
        seen = [_as_row(event) for event in each.events]
        if log != seen:
            differ = next(
                (pair for pair in zip(log, seen, strict=False) if pair[0] != pair[1]), (len(log), len(seen))
            )
            yield f"a watcher of {each.job_id} saw something else than its log: {differ}"


def nothing_is_left_open(facts: Facts) -> Iterator[str]:
    """No transaction has been open for long, though nobody works any more."""
    for row in facts.open_transactions:
        yield f"{row['application_name']}: a transaction is open for {row['seconds']:.1f} s, {row['state']}"


def invariants_hold(facts: Facts) -> Iterator[str]:
    """Every invariant of the store."""
    for name, offenders in facts.broken_invariants.items():
        yield f"{name}: {', '.join(offenders[:5])} ({len(offenders)})"


def all_broken(
    facts: Facts,
    *,
    acknowledged: Sequence[Acknowledged],
    watched: Sequence[Watched],
    moved: Mapping[str, Decimal],
) -> Mapping[str, Sequence[str]]:
    """Every check by its name, with what breaks it."""
    return {
        "jobs are those acknowledged": list(jobs_are_those_acknowledged(facts, acknowledged)),
        "jobs are ended": list(jobs_are_ended(facts)),
        "callers saw the end": list(callers_saw_the_end(facts, acknowledged)),
        "results are accepted once": list(results_are_accepted_once(facts)),
        "results are the answers": list(results_are_the_answers(facts)),
        "captures are priced by the stored card": list(captures_are_priced_by_the_stored_card(facts)),
        "reservations are settled": list(reservations_are_settled(facts)),
        "funds balance": list(funds_balance(facts, moved)),
        "counters are zero": list(counters_are_zero(facts)),
        "wire calls are attempts": list(wire_calls_are_attempts(facts)),
        "successes were answered": list(successes_were_answered(facts)),
        "watchers saw the log": list(watchers_saw_the_log(facts, watched)),
        "nothing is left open": list(nothing_is_left_open(facts)),
        "invariants hold": list(invariants_hold(facts)),
    }


def _count(rows: Sequence[Row], **wanted: str) -> int:
    ((column, value),) = wanted.items()
    return sum(row[column] == value for row in rows)


def _streamed(events: Sequence[Row], attempt: int) -> str:
    return "".join(each["text"] for each in events if each["attempt_number"] == attempt)


def _answered(call: Row) -> bool:
    return call["state"] == "finished" or "kept=1" in call["model"]


def _as_row(event: JobEvent) -> tuple[int, str, str]:
    kind = event.WhichOneof("event")
    assert kind is not None
    return event.sequence, kind.upper(), event.token_delta.text
