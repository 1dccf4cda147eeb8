"""Events as lines."""

import pytest

from hourglass.jobs.v1.event_pb2 import ContentErased, JobEvent, TokenDelta, UsageReported
from hourglass.jobs.v1.job_pb2 import CostBasis, ProviderCost, TokenUsage
from jobsctl.jobs.lines import cost_text, event_line, event_text
from tests.unit.jobsctl.stories import at, cancelled_call, changed, claim, event, lost, usd, won

KINDS = {field.name for field in JobEvent.DESCRIPTOR.oneofs_by_name["event"].fields}
SHOWN = [
    changed(0, "QUEUED", "CREATED"),
    *claim(1, 1, "worker-1"),
    event(1.5, 1, token_delta=TokenDelta(text="Blue\nsky", token_count=2)),
    event(1.6, 1, usage_reported=UsageReported(usage=TokenUsage(input_token_count=3, output_token_count=2))),
    *cancelled_call(2, 1),
    *lost(3, 1),
    *won(4, 2),
    event(5, content_erased=ContentErased(principal="olga")),
]


def test_every_kind_of_event_has_a_line() -> None:
    assert {shown.WhichOneof("event") for shown in SHOWN} == KINDS
    assert [
        "12:00:00.000      QUEUED          CREATED",
        "12:00:01.000      RUNNING         CLAIMED",
        "12:00:01.000  #1  claimed         by worker-1",
        "12:00:01.010  #1  sent            to simulated, as simulated-fast",
        '12:00:01.500  #1  text            "Blue\\nsky"',
        "12:00:01.600  #1  usage           3 in, 2 out tokens",
        '12:00:02.000  #1  cancel asked    by ann: "asked twice"',
        "12:00:02.020  #1  call closed     at 12:00:02.020; what the provider did after that is unknown",
        "12:00:03.000  #1  provider cost   unknown, at most $0.000400000",
        "12:00:03.000  #1  attempt ended   UNKNOWN LEASE_EXPIRED (unknown)",
        "12:00:04.000  #2  provider cost   $0.000100000 reported",
        "12:00:04.000  #2  attempt ended   SUCCEEDED COMPLETED",
        "12:00:04.000  #2  accepted        240 characters, 15 in (4 cached), 48 out tokens, STOP",
        "12:00:04.000      SUCCEEDED       ACCEPTED, charged $0.000120000",
        "12:00:05.000      content erased  by olga",
    ] == [event_line(shown) for shown in SHOWN]


def test_a_decision_names_who_made_it_and_why() -> None:
    retried = changed(0, "QUEUED", "RETRIED", principal="olga", reason="they are back", ready_time=at(0))
    assert '    QUEUED          RETRIED, by olga: "they are back"' == event_text(retried)


def test_a_kind_that_this_release_does_not_know_is_still_a_line() -> None:
    assert "    (unknown)" == event_text(JobEvent())


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (ProviderCost(), "$0.000000000"),
        (ProviderCost(amount=usd("0.1"), basis=CostBasis.COST_BASIS_ESTIMATED), "$0.100000000 estimated"),
        (ProviderCost(unknown_worst_case_amount=usd("0.2")), "unknown, at most $0.200000000"),
        (
            ProviderCost(amount=usd("0.1"), unknown_worst_case_amount=usd("0.2")),
            "$0.100000000 and at most $0.200000000 that is unknown",
        ),
    ],
)
def test_a_cost_says_how_it_is_known(cost: ProviderCost, text: str) -> None:
    assert text == cost_text(cost)
