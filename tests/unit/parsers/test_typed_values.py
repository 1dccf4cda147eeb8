"""What is typed at jobsctl: any text is a value that can be sent, or an error that says what is wanted."""

import math
from contextlib import suppress
from decimal import Decimal

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourglass.jobs.v1.job_pb2 import JobSpec
from jobsctl import inputs
from jobsctl.commands.values import AMOUNT, DURATION, LABEL, LIFETIME, MOMENT
from jobsctl.exits import Failure
from servicekit.wire_money import amount_of
from servicekit.wire_time import duration_of

DIGITS = st.from_regex(r"[-+]?[0-9]{1,400}(\.[0-9]{1,30})?(ms|s|m|h|d)?", fullmatch=True)
TYPED = st.one_of(st.text(max_size=40), DIGITS, st.from_regex(r"[0-9T:+.Z-]{1,30}", fullmatch=True))


@given(TYPED)
def test_a_duration_can_be_sent(text: str) -> None:
    with suppress(click.BadParameter):
        seconds = DURATION.convert(text, None, None)
        assert 0 < seconds < math.inf
        assert duration_of(seconds).IsInitialized()


@given(TYPED)
def test_a_time_can_be_sent(text: str) -> None:
    with suppress(click.BadParameter):
        assert inputs.time(MOMENT.convert(text, None, None)) is not None


@given(st.one_of(TYPED, st.from_regex(r"\$?-?[0-9]{1,30}(e[0-9]{1,9})?", fullmatch=True)))
def test_an_amount_arrives_to_the_last_unit(text: str) -> None:
    with suppress(click.BadParameter, Failure):
        amount = AMOUNT.convert(text, None, None)
        assert amount == amount_of(inputs.money("AMOUNT", amount))


@pytest.mark.parametrize("amount", ["1e999999999", "0.0000000001", "NaN", "Infinity"])
def test_what_is_no_amount_of_money_is_refused(amount: str) -> None:
    with pytest.raises((click.BadParameter, Failure)):
        inputs.money("AMOUNT", AMOUNT.convert(amount, None, None))
    assert Decimal("0.05") == AMOUNT.convert("$0.05", None, None)


@given(TYPED)
def test_labels_and_lifetimes_have_a_name_and_a_value(text: str) -> None:
    with suppress(click.BadParameter):
        assert "=".join(LABEL.convert(text, None, None)) == text
    for name in ("", "events="):
        with suppress(click.BadParameter):
            assert LIFETIME.convert(name + text, None, None)[1] > 0


@given(st.text(max_size=60).filter(lambda text: not text.lstrip().startswith("{")))
def test_a_spec_that_is_no_json_object_is_refused_by_the_name_of_its_flag(text: str) -> None:
    with pytest.raises(Failure, match=r"^USAGE: --spec: "):
        inputs.parsed(text, JobSpec(), "--spec")
