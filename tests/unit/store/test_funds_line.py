import pytest

from budget.core import Budget
from budget.errors import (
    CommitOutcomeUnknown,
    DatabaseConflict,
    DatabaseUnavailable,
    LockTimeout,
    PoolTimeout,
)
from budget.policy import Policy
from budget.retry import Retries, Try
from jobs_store.funds_line import left_nothing, moving_line

POLICY = Policy(dependency="postgres", method="create_job", limit=0.4, attempts=20)


async def tries_of(line: Retries, *, failures: int, error: Exception) -> int:
    """How often a call was made that fails so many times first; it may fail for good."""
    tries = 0

    async def call(this: Try) -> None:
        nonlocal tries
        tries = this.attempt
        if this.attempt <= failures:
            raise error

    try:
        await line.run(call, budget=Budget.for_work(5.0), policy=POLICY, retryable=left_nothing)
    except type(error):
        return -tries
    return tries


@pytest.mark.parametrize("error", [PoolTimeout(), LockTimeout(), DatabaseConflict()])
async def test_a_line_is_waited_in_as_long_as_it_moves(error: Exception) -> None:
    line = moving_line()
    assert -1 == await tries_of(line, failures=1, error=error), "nobody has gone through yet"
    assert 1 == await tries_of(line, failures=0, error=error)
    assert 2 == await tries_of(line, failures=1, error=error)
    assert -2 == await tries_of(line, failures=9, error=error), "that was one for the one that went through"
    assert -1 == await tries_of(line, failures=9, error=error)


@pytest.mark.parametrize("error", [CommitOutcomeUnknown(), DatabaseUnavailable()])
async def test_what_may_have_left_something_is_not_tried_again(error: Exception) -> None:
    line = moving_line()
    assert 1 == await tries_of(line, failures=0, error=error)
    assert -1 == await tries_of(line, failures=1, error=error)
