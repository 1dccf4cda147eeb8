"""The tests' own way to wait."""

import pytest

from tests.waiting import eventually


async def test_it_returns_the_first_true_answer() -> None:
    answers = iter([0, 0, 3, 4])

    assert 3 == await eventually(lambda: next(answers))


async def test_it_awaits_a_coroutine() -> None:
    answers = iter([None, "there"])

    async def condition() -> str | None:
        return next(answers)

    assert "there" == await eventually(condition)


async def test_it_gives_up_and_names_the_last_answer() -> None:
    with pytest.raises(AssertionError, match=r"not true within 0\.01 s.* the last answer was \[\]"):
        await eventually(list, within=0.01)
