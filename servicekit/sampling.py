"""Which traces are recorded: what the OTEL_TRACES_SAMPLER variables say, with links taken for parents.

A job's attempt begins long after the request that made the job has been answered, so it is a trace of its own
that links to it. Under a parent-based sampler (the default) a request that is recorded should have its
attempts recorded too, and one that is not should not: otherwise a sample of traces would hold few whole jobs.
"""

from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    ParentBased,
    Sampler,
    SamplingResult,
)
from opentelemetry.trace import Link, SpanKind, TraceState, get_current_span
from opentelemetry.util.types import Attributes
from typing_extensions import override


def linked(sampler: Sampler) -> Sampler:
    """The sampler, which asks links where a span has no parent; one that asks no parents asks no links."""
    return _LinkBased(sampler) if isinstance(sampler, ParentBased) else sampler


class _LinkBased(Sampler):
    def __init__(self, otherwise: Sampler) -> None:
        self._otherwise = otherwise

    @override
    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        chosen = self._otherwise
        if links and not get_current_span(parent_context).get_span_context().is_valid:
            recorded = any(link.context.trace_flags.sampled for link in links)
            chosen = ALWAYS_ON if recorded else ALWAYS_OFF
        return chosen.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)

    @override
    def get_description(self) -> str:
        return f"LinkBased{{{self._otherwise.get_description()}}}"
