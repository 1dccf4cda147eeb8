"""Lifetimes: what a job needs goes last, and a fault names its class."""

import pytest

from jobs_store.lifetimes import DAY, Lifetimes


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"quotes": -1.0}, "quotes must be 0 or more"),
        ({"audit": float("nan")}, "audit must be 0 or more"),
        ({"payload": 8 * DAY}, "events must be at least payload"),
        ({"events": 31 * DAY}, "result must be at least events"),
        ({"result": 91 * DAY}, "jobs must be at least result"),
        ({"attempts": 91 * DAY}, "jobs must be at least attempts"),
        ({"attempts": DAY}, "attempts must be at least payload"),
        ({"soup": 1.0}, "soup is no class of rows"),
    ],
)
def test_lifetimes_that_make_no_sense_are_refused_by_name(changed: dict[str, float], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Lifetimes().overridden(changed)


def test_a_tenant_changes_what_it_names() -> None:
    own = Lifetimes().overridden({"payload": 0.0, "jobs": 100 * DAY})
    assert Lifetimes(payload=0.0, jobs=100 * DAY) == own
