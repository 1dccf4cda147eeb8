"""The ledger that leaves a server: every spend lies where it lay in the time of the request."""

from budget.core import Budget
from budget.policy import Policy
from budget.spend import spend
from servicekit.endings import Ending
from servicekit.wire_ledger import ledger_message
from servicekit.wire_time import seconds_of

PRICING = Policy(dependency="pricing", method="GetPrice", limit=0.3)
POSTGRES = Policy(dependency="postgres", method="create_quote", limit=0.15)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def starts(budget: Budget) -> list[tuple[str, float]]:
    message = ledger_message(budget, method="/a.B/C", took=1.0, ending=Ending.OK)
    timed = [one for one in message.spends if one.HasField("start_duration")]
    return [(one.dependency, round(seconds_of(one.start_duration), 3)) for one in timed]


async def test_a_spend_says_when_it_began_also_under_a_budget_that_was_narrowed() -> None:
    clock = Clock()
    root = Budget.root(incoming=2.0, default=None, cap=None, clock=clock)
    narrowed = root.child(0.5)
    clock.now += 0.01
    async with spend(narrowed, PRICING):
        clock.now += 0.02
    async with spend(root, POSTGRES):
        pass
    assert [("pricing", 0.01), ("postgres", 0.03)] == starts(root)


async def test_a_stream_without_an_end_does_not_say_when_its_spends_began() -> None:
    stream = Budget.for_stream(incoming=None, clock=Clock())
    async with spend(stream, POSTGRES):
        pass
    assert [] == starts(stream)
