"""Ledgers from elsewhere: whatever stands there is a ledger or a ValueError; text and binary agree."""

from contextlib import suppress

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from budget.core import Budget
from budget.ledger import Ledger, Outcome, Spend, parse_text
from hourglass.budget.v1.ledger_pb2 import BudgetLedger, SpendOutcome
from jobsctl.session import _parsed
from presentation.ledger_table import ledger_lines
from servicekit.endings import Ending
from servicekit.wire_ledger import MAX_BYTES, ledger_message, ledger_message_of_text
from servicekit.wire_time import seconds_of

LIKE_A_LEDGER = st.text(alphabet="abz09/.;: #+-~_infoktimeu\n\x00", max_size=80)
SPENDS = st.builds(
    Spend,
    dependency=st.sampled_from(["postgres", "pricing", "worker"]),
    method=st.from_regex(r"[A-Za-z0-9_.-]{1,60}", fullmatch=True),
    remaining=st.floats(0, 1000),
    limit=st.floats(0, 1000),
    took=st.floats(0, 1000),
    outcome=st.sampled_from(Outcome),
    attempt=st.integers(1, 99),
)


def budget_that_spent(spends: list[Spend]) -> Budget:
    budget = Budget.for_work(10.0)
    for one in spends:
        budget.ledger.record(one)
    return budget


@given(st.one_of(st.text(), LIKE_A_LEDGER))
def test_any_text_is_a_ledger_or_a_value_error(text: str) -> None:
    with suppress(ValueError):
        assert parse_text(text).cut >= 0


@given(st.lists(SPENDS, max_size=40))
def test_a_binary_ledger_fits_its_trailer_and_counts_what_it_leaves_out(spends: list[Spend]) -> None:
    message = ledger_message(budget_that_spent(spends), method="/a.B/C", took=1.0, ending=Ending.OK)
    assert message.ByteSize() <= MAX_BYTES
    assert len(spends) == len(message.spends) + message.omitted_count
    assert message == BudgetLedger.FromString(message.SerializeToString())


@given(st.lists(SPENDS, max_size=8))
def test_text_and_binary_tell_the_same(spends: list[Spend]) -> None:
    ledger = Ledger()
    for one in spends:
        ledger.record(one)
    message = ledger_message_of_text(ledger.as_text(100_000), method="a.B/C")
    told = [(one.dependency, one.method, one.attempt) for one in message.spends]
    assert [(one.dependency, one.method, one.attempt) for one in spends] == told
    for one, sent in zip(spends, message.spends, strict=True):
        assert SpendOutcome.Value(f"SPEND_OUTCOME_{one.outcome.name}") == sent.outcome
        assert one.took == pytest.approx(seconds_of(sent.took_duration), abs=0.000_051)


@given(st.binary(max_size=200))
def test_any_bytes_of_a_trailer_are_a_ledger_that_can_be_drawn_or_none(data: bytes) -> None:
    ledger = _parsed(data)
    if ledger is None:
        with pytest.raises(DecodeError):
            BudgetLedger.FromString(data)
    else:
        assert list(ledger_lines(ledger, width=80, unicode=True))
