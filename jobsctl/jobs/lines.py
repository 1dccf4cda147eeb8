"""One event of a job as one line: when, which attempt, what. Pure."""

from collections.abc import Callable, Mapping
from typing import Final

from hourglass.jobs.v1 import event_pb2, job_pb2
from hourglass.jobs.v1.event_pb2 import JobEvent
from hourglass.jobs.v1.job_pb2 import ProviderCost, TokenUsage
from presentation.values import ZERO, dollars, moment, printable, short_name
from servicekit.wire_money import amount_of
from servicekit.wire_time import datetime_of

NAME_WIDTH: Final = 15
PREVIEW: Final = 60


def event_line(event: JobEvent) -> str:
    """The event with its time of day (UTC)."""
    at = f"{datetime_of(event.event_time):%H:%M:%S.%f}"[:-3]
    return f"{at}  {event_text(event)}"


def event_text(event: JobEvent) -> str:
    """The event without its time."""
    attempt = f"#{event.attempt_number}" if event.attempt_number else "  "
    name, what = told(event)
    return f"{attempt:<3} {name:<{NAME_WIDTH}} {what}".rstrip()


def told(event: JobEvent) -> tuple[str, str]:
    """What an event is called, and what it says; a kind that this release does not know says nothing."""
    kind = event.WhichOneof("event")
    return _TOLD[kind](event) if kind in _TOLD else ("(unknown)", "")


def state_name(state: int) -> str:
    """A state without its prefix."""
    return short_name(job_pb2.JobState, state)


def outcome_name(outcome: int) -> str:
    """An attempt's outcome without its prefix."""
    return short_name(job_pb2.AttemptOutcome, outcome)


def cause_text(cause: str, error_class: int) -> str:
    """Why an attempt ended, and how an error is treated."""
    name = short_name(job_pb2.ErrorClass, error_class)
    return cause if name == ZERO else f"{cause} ({name.lower()})"


def basis_name(basis: int) -> str:
    """How a cost is known; empty when nothing was sent."""
    name = short_name(job_pb2.CostBasis, basis)
    return "" if name == ZERO else name


def cost_text(cost: ProviderCost) -> str:
    """A provider's cost with its basis, and the worst case of what is not known."""
    known, worst = amount_of(cost.amount), amount_of(cost.unknown_worst_case_amount)
    if not worst:
        return f"{dollars(cost.amount)} {basis_name(cost.basis).lower()}".rstrip()
    unknown = f"at most {dollars(cost.unknown_worst_case_amount)}"
    return f"{dollars(cost.amount)} and {unknown} that is unknown" if known else f"unknown, {unknown}"


def usage_text(usage: TokenUsage) -> str:
    """Tokens in and out."""
    cached = f" ({usage.cached_input_token_count} cached)" if usage.cached_input_token_count else ""
    return f"{usage.input_token_count} in{cached}, {usage.output_token_count} out"


def quoted(text: str) -> str:
    """A text in quotes, short enough for a line."""
    line = printable(text.replace("\n", "\\n"))
    return f'"{line[:PREVIEW]}{"..." if len(line) > PREVIEW else ""}"'


def by_whom(principal: str, reason: str) -> str:
    """Who, and the reason that was given."""
    return f"by {principal}" + (f": {quoted(reason)}" if reason else "")


def _state_changed(event: JobEvent) -> tuple[str, str]:
    changed = event.state_changed
    parts = [changed.cause]
    if changed.principal:
        parts.append(by_whom(changed.principal, changed.reason))
    if changed.HasField("ready_time") and _is_later(event):
        parts.append(f"not before {moment(changed.ready_time)}")
    if changed.terminal and changed.HasField("captured_amount"):
        parts.append(f"charged {dollars(changed.captured_amount)}")
    return state_name(changed.state), ", ".join(parts)


def _is_later(event: JobEvent) -> bool:
    ready, now = event.state_changed.ready_time, event.event_time
    return (ready.seconds, ready.nanos) > (now.seconds, now.nanos)


def _attempt_started(event: JobEvent) -> tuple[str, str]:
    return "claimed", f"by {event.attempt_started.worker_id}"


def _attempt_sent(event: JobEvent) -> tuple[str, str]:
    sent = event.attempt_sent
    return "sent", f"to {sent.provider}, as {sent.provider_model}"


def _attempt_ended(event: JobEvent) -> tuple[str, str]:
    ended = event.attempt_ended
    return "attempt ended", f"{outcome_name(ended.outcome)} {cause_text(ended.cause, ended.error_class)}"


def _token_delta(event: JobEvent) -> tuple[str, str]:
    return "text", quoted(event.token_delta.text)


def _usage_reported(event: JobEvent) -> tuple[str, str]:
    return "usage", f"{usage_text(event.usage_reported.usage)} tokens"


def _cost_recorded(event: JobEvent) -> tuple[str, str]:
    return "provider cost", cost_text(event.cost_recorded.provider_cost)


def _cancel_requested(event: JobEvent) -> tuple[str, str]:
    asked = event.cancel_requested
    return "cancel asked", by_whom(asked.principal, asked.reason)


def _provider_call_closed(event: JobEvent) -> tuple[str, str]:
    closed = f"{datetime_of(event.provider_call_closed.close_time):%H:%M:%S.%f}"[:-3]
    return "call closed", f"at {closed}; what the provider did after that is unknown"


def _result_accepted(event: JobEvent) -> tuple[str, str]:
    accepted = event.result_accepted
    finish = short_name(job_pb2.FinishReason, accepted.finish_reason)
    return "accepted", f"{accepted.text_length} characters, {usage_text(accepted.usage)} tokens, {finish}"


def _content_erased(event: JobEvent) -> tuple[str, str]:
    return "content erased", f"by {event.content_erased.principal}"


_TOLD: Final[Mapping[str | None, Callable[[event_pb2.JobEvent], tuple[str, str]]]] = {
    "state_changed": _state_changed,
    "attempt_started": _attempt_started,
    "attempt_sent": _attempt_sent,
    "attempt_ended": _attempt_ended,
    "token_delta": _token_delta,
    "usage_reported": _usage_reported,
    "cost_recorded": _cost_recorded,
    "cancel_requested": _cancel_requested,
    "provider_call_closed": _provider_call_closed,
    "result_accepted": _result_accepted,
    "content_erased": _content_erased,
}
