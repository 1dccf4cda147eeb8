"""A sample of traces holds whole jobs: attempts are recorded as the requests that made their jobs were."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider, sampling
from opentelemetry.trace import Link, SpanContext, TraceFlags

from servicekit.sampling import linked

NEVER = sampling.ParentBased(sampling.ALWAYS_OFF)
ALWAYS = sampling.ParentBased(sampling.ALWAYS_ON)


def a_request(*, sampled: bool) -> Link:
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    return Link(SpanContext(trace_id=7, span_id=8, is_remote=True, trace_flags=flags))


def records(sampler: sampling.Sampler, *links: Link, below: trace.Span | None = None) -> bool:
    tracer = TracerProvider(sampler=linked(sampler), shutdown_on_exit=False).get_tracer("t")
    context = trace.set_span_in_context(below or trace.INVALID_SPAN)
    return tracer.start_span("run", context=context, links=links).is_recording()


@pytest.mark.parametrize("sampled", [True, False])
@pytest.mark.parametrize("sampler", [NEVER, ALWAYS], ids=["never", "always"])
def test_an_attempt_is_recorded_if_and_only_if_its_request_was(
    sampler: sampling.Sampler, *, sampled: bool
) -> None:
    assert sampled == records(sampler, a_request(sampled=sampled))


@pytest.mark.parametrize(("sampler", "recorded"), [(NEVER, False), (ALWAYS, True)])
def test_without_a_request_the_sampler_itself_decides(sampler: sampling.Sampler, *, recorded: bool) -> None:
    assert recorded == records(sampler)


def test_a_parent_counts_for_more_than_a_link() -> None:
    context = a_request(sampled=False).context
    assert not records(ALWAYS, a_request(sampled=True), below=trace.NonRecordingSpan(context))


def test_who_asks_no_parents_asks_no_links() -> None:
    assert records(sampling.ALWAYS_ON, a_request(sampled=False))
