"""The picture of a budget ledger."""

from hourglass.budget.v1.ledger_pb2 import BudgetLedger, BudgetSpend
from presentation.waterfall import ASCII, Row, headline, milliseconds, omitted, rows, scale
from servicekit.wire_time import duration_of
from tests.ledgers import ledger, spend


def drawn(*spends: BudgetSpend, took: float = 0.1) -> list[str]:
    return [row.bar for row in rows(ledger(*spends, took=took), width=10, ink=ASCII)]


def test_a_bar_lies_where_its_spend_lay_in_the_time_of_the_request() -> None:
    assert drawn(
        spend("find_key", remaining=1.8, took=0.02),
        spend("GetPrice", remaining=1.78, took=0.03),
        spend("create_job", remaining=1.75, took=0.05),
    ) == ["##        ", "  ###     ", "     #####"]


def test_spends_are_drawn_in_the_order_of_their_start() -> None:
    late, early = spend("late", remaining=1.74, took=0.01), spend("early", remaining=1.8, took=0.08)
    assert ["postgres/early", "postgres/late"] == [r.label for r in rows(ledger(late, early), width=10)]


def test_the_shortest_spend_is_still_seen_and_none_leaves_the_picture() -> None:
    assert drawn(spend("a", remaining=1.8, took=0.0), spend("b", remaining=1.7, took=0.0)) == [
        "#         ",
        "         #",
    ]


def test_a_spend_that_outlasts_the_request_stretches_the_scale() -> None:
    assert drawn(spend("a", remaining=1.8, took=0.2), took=0.1) == ["##########"]


def test_what_was_decided_against_is_a_mark_with_its_reason() -> None:
    skipped = spend("status", remaining=1.75, took=0.0, outcome="SKIPPED_LOW", reason="FLOOR")
    assert rows(ledger(skipped), width=10, ink=ASCII) == [
        Row(
            label="postgres/status",
            bar="     .    ",
            figures="0.00 of 400 ms",
            outcome="skipped_low FLOOR",
        )
    ]


def test_a_second_try_says_that_it_is_one() -> None:
    assert [r.label for r in rows(ledger(spend("a", remaining=1.8, took=0.1, attempt=2)), width=10)] == [
        "postgres/a #2"
    ]


def test_the_headline_says_what_there_was_and_what_was_used() -> None:
    assert headline(ledger()) == (
        "CreateJob took 100 ms of 2000 ms (5.0%), 200 ms of them kept for the answer"
    )
    assert headline(BudgetLedger(method="a.B/Watch")) == "Watch took 0.00 ms of a budget without an end"


def test_an_empty_ledger_and_one_without_times_can_be_drawn() -> None:
    assert rows(BudgetLedger(), width=10) == []
    unbounded = BudgetLedger(spends=[BudgetSpend(dependency="postgres", method="read")])
    assert [(row.bar, row.figures) for row in rows(unbounded, width=4, ink=ASCII)] == [
        ("#   ", "0.00 of inf ms")
    ]


def test_the_scale_reaches_from_0_to_the_end_of_the_request() -> None:
    assert scale(ledger(), width=20) == "0" + "100 ms".rjust(19)


def test_what_the_ledger_left_out_is_said() -> None:
    assert omitted(BudgetLedger(omitted_count=3)) == "and 3 more that the ledger had no room for"
    assert omitted(BudgetLedger()) == ""


def test_times_are_rounded_for_people() -> None:
    assert [milliseconds(t) for t in (0, 0.00123, 0.0123, 0.123, 2)] == [
        "0.00 ms",
        "1.23 ms",
        "12.3 ms",
        "123 ms",
        "2000 ms",
    ]


def test_a_start_that_is_known_counts_more_than_what_could_be_spent() -> None:
    nested = spend("GetPrice", remaining=1.6, took=0.05)
    nested.start_duration.CopyFrom(duration_of(0.01))
    assert drawn(nested) == [" #####    "]


def test_a_ledger_without_its_ends_is_drawn_by_what_could_be_spent() -> None:
    kept = BudgetLedger(
        method="a.B/CreateJob",
        spends=[spend("first", remaining=1.8, took=0.03), spend("second", remaining=1.77, took=0.03)],
    )
    assert "CreateJob took at least 60.0 ms of 1800 ms that it could spend" == headline(kept)
    assert ["#####     ", "     #####"] == [row.bar for row in rows(kept, width=10, ink=ASCII)]
