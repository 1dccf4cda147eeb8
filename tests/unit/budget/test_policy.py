import math
from typing import Any

import pytest

from budget.policy import Enforcement, Policy

GOOD: dict[str, Any] = {"dependency": "pricing", "method": "GetPrice", "limit": 0.3}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dependency", ""),
        ("dependency", "a; b"),
        ("method", "a/b"),
        ("limit", 0.0),
        ("limit", -1.0),
        ("limit", math.nan),
        ("floor", -0.1),
        ("floor", 0.4),
        ("floor", math.nan),
        ("attempts", 0),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_field(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{field}: "):
        Policy(**{**GOOD, field: value})


def test_a_policy_enforces_unless_told_to_observe() -> None:
    assert (
        Policy(**GOOD).observed,
        Policy(**GOOD, enforcement=Enforcement.OBSERVE).observed,
    ) == (False, True)
