"""What becomes of a job that a worker runs."""

from __future__ import annotations

import gc
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING

from jobs_store.events import EventKind
from jobs_store.states import CostBasis, FinishReason, JobState
from tests.integration.worker.workers import attempts, outcomes
from tests.store import CARD
from tests.waiting import eventually
from worker.active import Run

if TYPE_CHECKING:
    from tests.integration.worker.workers import Bench


async def test_a_job_is_run_and_its_answer_accepted_once(bench: Bench) -> None:
    """The whole way: result, attempt, cost, money, slots."""
    job = await bench.job("simulated-fast:tokens=20")
    async with bench.worker():
        detail = await bench.ends(job)
    assert JobState.SUCCEEDED is detail.job.state
    assert ["SUCCEEDED"] == outcomes(detail)
    content = detail.content
    assert content is not None
    assert content.result is not None
    assert FinishReason.STOP is content.result.finish_reason
    assert content.usage is not None
    assert 20 == content.usage.output_tokens
    (attempt,) = attempts(detail)
    assert CostBasis.REPORTED is attempt.end.cost.basis
    assert CARD.amount(content.usage) == attempt.end.cost.amount == detail.job.captured
    assert (Decimal(0), detail.job.captured) == await bench.funds()


async def test_the_events_of_a_run_are_whole_and_in_order(bench: Bench) -> None:
    """Created, running, sent, text, ended, accepted; numbered without a gap inside the run's epoch."""
    job = await bench.job("simulated-fast:tokens=30")
    async with bench.worker():
        detail = await bench.ends(job)
    events = await bench.events(job)
    kinds = [event.kind for event in events]
    assert [
        EventKind.STATE_CHANGED,
        EventKind.STATE_CHANGED,
        EventKind.ATTEMPT_STARTED,
        EventKind.ATTEMPT_SENT,
    ] == kinds[:4]
    assert [
        EventKind.USAGE_REPORTED,
        EventKind.COST_RECORDED,
        EventKind.ATTEMPT_ENDED,
        EventKind.RESULT_ACCEPTED,
        EventKind.STATE_CHANGED,
    ] == kinds[-5:]
    deltas = [event for event in events if event.kind is EventKind.TOKEN_DELTA]
    assert kinds[4:-5] == [delta.kind for delta in deltas]
    assert all(after.sequence == before.sequence + 1 for before, after in pairwise(events[1:]))
    content = detail.content
    assert content is not None
    assert content.result is not None
    assert content.result.text == "".join(delta.text or "" for delta in deltas)
    assert 30 == sum(int(str(delta.attributes["token_count"])) for delta in deltas)
    offset = 0
    for delta in deltas:
        assert offset == delta.attributes["offset"]
        offset += len(delta.text or "")
    assert events[-1].ends_stream


async def test_a_run_that_has_ended_is_freed_without_the_garbage_collector(bench: Bench) -> None:
    """Its prompt and its answer may be a megabyte each, and the collector comes rarely."""
    gc.collect()
    gc.disable()
    try:
        async with bench.worker():
            await bench.ends(await bench.job("simulated-fast:tokens=5"))
            await eventually(lambda: not any(type(kept) is Run for kept in gc.get_objects()))
    finally:
        gc.enable()
