"""A claimed job for tests that need no store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from jobs_store.decisions import RetryTiming, Tally, Terms
from jobs_store.identifiers import JobId, RunToken, TenantId, sequence
from jobs_store.rate_card import RateCard, RateTier
from jobs_store.runs import Claimed
from jobs_store.states import UnknownOutcomePolicy

MOMENT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
WORST_CASE = Decimal("0.001")
CARD = RateCard(
    model="fast",
    price_version="1",
    tiers=(RateTier(above_input_tokens=0, input=Decimal(10), cached_input=Decimal(5), output=Decimal(40)),),
)
TERMS = Terms(
    max_attempts=3,
    unknown_outcome_policy=UnknownOutcomePolicy.RETRY,
    attempt_worst_case=WORST_CASE,
    provider_cost_limit=Decimal("0.01"),
)
FRESH = Tally(
    counted_attempts=0, crash_count=0, known_cost=Decimal(0), unknown_cost=Decimal(0), attempt_number=1
)
TIMING = RetryTiming(backoff_base=1.0, backoff_cap=8.0)


def longest(most: float) -> float:
    """Jitter that never shortens a pause."""
    return most


def claimed(**changed: Any) -> Claimed:
    """A job in its second epoch, claimed for its first attempt, with `changed` fields."""
    run = Claimed(
        tenant=TenantId("acme"),
        job_id=JobId(UUID(int=1)),
        token=RunToken(UUID(int=2)),
        epoch=2,
        attempt_number=1,
        claim_time=MOMENT,
        last_sequence=sequence(1, 1),
        lane="simulated/fast",
        model="fast",
        provider="simulated",
        principal="ada",
        traceparent="",
        tracestate="",
        create_time=MOMENT,
        messages=({"role": "user", "content": "Say hello."},),
        sampling={},
        max_output_tokens=100,
        attempt_timeout=90.0,
        terms=TERMS,
        tally=FRESH,
        rate_card=CARD,
        provider_rate_card=CARD,
        input_token_bound=200,
        input_token_estimate=90,
    )
    return replace(run, **changed)
