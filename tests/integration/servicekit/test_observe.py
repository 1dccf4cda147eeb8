"""A policy that only observes cuts nothing, and what it would have cut is seen everywhere."""

import asyncio

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from budget.ledger import parse_text
from budget.policy import Enforcement, Policy
from budget.spend import spend
from servicekit.call import call_of
from tests.integration.servicekit.metrics import counted
from tests.integration.servicekit.service import Context, serving


@pytest.mark.parametrize(
    ("enforcement", "would_cut", "answer"),
    [(Enforcement.OBSERVE, [True, False], [b"late"]), (Enforcement.ENFORCE, [False], [])],
)
async def test_a_slow_dependency_is_cut_or_only_counted(
    enforcement: Enforcement, would_cut: list[bool], answer: list[bytes]
) -> None:
    slow = Policy(dependency="pricing", method="GetPrice", limit=0.02, enforcement=enforcement)
    quick = Policy(dependency="postgres", method="read_job", limit=1.0, enforcement=enforcement)

    async def act(context: Context) -> bytes:
        budget = call_of(context).budget
        async with spend(budget, slow):
            await asyncio.sleep(0.05)  # stands for the dependency
        async with spend(budget, quick):
            return b"late"

    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    async with serving({b"x": act}, meter=provider.get_meter("test")) as harness:
        seen = await harness.ask("unary_unary", b"x")
        span = await harness.span()

    text = seen.trailers["budget-ledger"]
    assert isinstance(text, str)
    assert answer == seen.messages
    assert would_cut == [spent.would_cut for spent in seen.ledger.spends]
    assert would_cut == [spent.would_cut for spent in parse_text(text).spends]
    assert would_cut == [(event.attributes or {}).get("hourglass.would_cut", False) for event in span.events]
    assert sum(would_cut) == counted(reader, "hourglass.budget.would_cut")
    provider.shutdown()
