import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget.ledger import Ledger, Outcome, Spend, parse_text

durations = st.floats(0, 100_000)
spends = st.builds(
    Spend,
    dependency=st.from_regex(r"[a-z0-9_-]{1,40}", fullmatch=True),
    method=st.from_regex(r"[A-Za-z0-9_.-]{1,60}", fullmatch=True),
    remaining=st.one_of(durations, st.just(math.inf)),
    limit=st.one_of(durations, st.just(math.inf)),
    took=durations,
    outcome=st.sampled_from(Outcome),
    attempt=st.integers(1, 99),
    reason=st.from_regex(r"[A-Za-z0-9_.-]{0,60}", fullmatch=True),
    would_cut=st.booleans(),
)


def a_spend(took: float = 0.0124, outcome: Outcome = Outcome.OK, method: str = "GetPrice") -> Spend:
    return Spend(dependency="pricing", method=method, remaining=0.7852, limit=0.3, took=took, outcome=outcome)


def ledger_of(written: list[Spend]) -> Ledger:
    ledger = Ledger()
    for one in written:
        ledger.record(one)
    return ledger


def to_a_tenth_of_a_millisecond(one: Spend) -> tuple[object, ...]:
    times = [round(value * 1000, 1) for value in (one.remaining, one.limit, one.took)]
    return (one.dependency, one.method, *times, one.outcome, one.attempt, one.reason, one.would_cut)


@given(st.lists(spends, max_size=12))
def test_what_is_written_can_be_read_back(written: list[Spend]) -> None:
    read = parse_text(ledger_of(written).as_text(max_bytes=100_000))
    assert list(map(to_a_tenth_of_a_millisecond, written)) == list(
        map(to_a_tenth_of_a_millisecond, read.spends)
    )
    assert read.cut == 0


@given(st.lists(spends, max_size=60), st.integers(10, 2000))
def test_the_text_keeps_its_size_and_says_how_much_is_missing(written: list[Spend], size: int) -> None:
    text = ledger_of(written).as_text(max_bytes=size)
    read = parse_text(text)
    assert len(text.encode("ascii")) <= size
    assert len(written) == len(read.spends) + read.cut
    assert text.isprintable()
    assert text == text.strip()


def test_a_line_reads_like_a_sentence() -> None:
    second = Spend(
        dependency="postgres",
        method="create_job",
        remaining=0.772,
        limit=0.15,
        took=0.15,
        outcome=Outcome.TIMEOUT,
        attempt=2,
        reason="LOCK",
        would_cut=True,
    )
    expected = "pricing/GetPrice 12.4/300 of 785.2 ok; postgres/create_job 150/150 of 772 timeout#2~:LOCK"
    assert expected == ledger_of([a_spend(), second]).as_text()


def test_an_empty_ledger_is_an_empty_line() -> None:
    assert Ledger().as_text() == ""
    assert parse_text("").spends == ()


def test_the_cheapest_successes_are_left_out_first() -> None:
    failed = a_spend(took=0.0, outcome=Outcome.SKIPPED_LOW, method="Status")
    slow = a_spend(took=0.2, method="Slow")
    text = ledger_of([failed, *[a_spend()] * 50, slow]).as_text(max_bytes=200)
    read = parse_text(text)
    assert [failed, slow] == [one for one in read.spends if one.method in {"Status", "Slow"}], (
        "what failed and what was slow stays"
    )
    assert 52 - len(read.spends) == read.cut > 0


def test_a_reason_from_outside_cannot_break_the_line() -> None:
    hostile = Spend(
        dependency="p",
        method="m",
        remaining=1,
        limit=1,
        took=1,
        outcome=Outcome.ERROR,
        reason="a; b/c \n\x00é" * 30,
    )
    read = parse_text(ledger_of([hostile]).as_text())
    assert (len(read.spends), read.cut, len(read.spends[0].reason)) == (1, 0, 60)


def test_a_stream_that_lives_for_days_keeps_a_bounded_ledger_and_whole_totals() -> None:
    ledger = Ledger(capacity=10)
    for _ in range(1000):
        ledger.record(a_spend(took=0.5))
    (total,) = ledger.totals
    assert (len(ledger.spends), total.count, total.took) == (10, 1000, 500.0)
    assert len(parse_text(ledger.as_text()).spends) + parse_text(ledger.as_text()).cut == 1000


def test_a_spend_that_is_forgotten_is_told_once() -> None:
    told: list[Spend] = []
    ledger = Ledger(capacity=2)
    ledger.forgetting = told.append
    first, *others = [a_spend(took=float(took)) for took in range(4)]
    for each in (first, *others):
        ledger.record(each)
    assert ([first, others[0]], tuple(others[1:])) == (told, ledger.spends)


def test_text_that_is_not_a_ledger_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="not a spend: 'nonsense'"):
        parse_text("pricing/GetPrice 12.4/300 of 785.2 ok; nonsense")
