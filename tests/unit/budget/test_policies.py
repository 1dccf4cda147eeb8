"""Policies come from the app's data and one setting; what is wrong with it is told completely."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget.policies import PolicyBook, PolicyProblems, policies
from budget.policy import Enforcement, Policy

DEFAULTS = PolicyBook(
    [
        *policies("pricing", "GetPrice", "ListPrices", limit=0.5, floor=0.05),
        *policies("postgres", "read_job", limit=0.4, floor=0.01),
        *policies("postgres", "find.key", limit=0.15),
        *policies("worker", "GetWorkerStatus", limit=0.2, optional=True),
    ]
)


def overridden(changes: Any) -> PolicyBook:
    return DEFAULTS.overridden(json.dumps(changes))


def problems(text: str) -> dict[str, str]:
    with pytest.raises(PolicyProblems) as caught:
        DEFAULTS.overridden(text)
    return dict(caught.value.problems)


def test_a_setting_changes_the_fields_it_names_and_nothing_else() -> None:
    book = overridden({"pricing.GetPrice": {"limit": 0.3, "attempts": 2}})

    changed = Policy(dependency="pricing", method="GetPrice", limit=0.3, floor=0.05, attempts=2)
    assert changed == book.of("pricing", "GetPrice")
    assert [policy for policy in DEFAULTS if policy.method != "GetPrice"] == [
        policy for policy in book if policy.method != "GetPrice"
    ]


@pytest.mark.parametrize("specific_first", [True, False])
def test_a_bare_dependency_applies_to_all_its_methods_unless_one_is_named(specific_first: bool) -> None:
    changes = [
        ("postgres.read_job", {"enforcement": "enforce", "limit": 0.2}),
        ("postgres", {"enforcement": "observe", "limit": 0.3}),
    ]
    book = overridden(dict(changes if specific_first else reversed(changes)))

    seen = [(policy.limit, policy.enforcement) for policy in book if policy.dependency == "postgres"]
    assert [(0.2, Enforcement.ENFORCE), (0.3, Enforcement.OBSERVE)] == seen


def test_a_method_may_have_dots_in_its_name() -> None:
    assert 0.1 == overridden({"postgres.find.key": {"limit": 0.1}}).of("postgres", "find.key").limit


def test_every_problem_is_told_at_once_by_its_path() -> None:
    told = problems(
        json.dumps(
            {
                "pricng": {"limit": 1},
                "pricing.GetPrise": {"limit": 1},
                "pricing.ListPrices": {"limt": 1, "floor": -1, "attempts": 1.5},
                "postgres": {"limit": True, "enforcement": "count", "optional": "yes"},
                "worker": 5,
            }
        )
    )

    assert {
        "pricng": "is no dependency here; did you mean pricing?",
        "pricing.GetPrise": "is no method of pricing; did you mean GetPrice?",
        "pricing.ListPrices.limt": "is no field of a policy; did you mean limit?",
        "pricing.ListPrices.floor": "is -1, wanted seconds, 0 to 1000000",
        "pricing.ListPrices.attempts": "is 1.5, wanted a whole number, 1 or more",
        "postgres.limit": "is true, wanted seconds above 0, at most 1000000",
        "postgres.enforcement": 'is "count", wanted enforce or observe',
        "postgres.optional": 'is "yes", wanted true or false',
        "worker": "must be an object with some of limit, floor, attempts, optional, enforcement",
    } == told


def test_a_limit_below_the_floor_that_stays_is_refused_for_each_method_concerned() -> None:
    told = problems('{"pricing": {"limit": 0.04}}')

    assert {"pricing.GetPrice.floor", "pricing.ListPrices.floor"} == set(told)


@pytest.mark.parametrize(
    ("text", "path", "fault"),
    [
        ("{", "", "is not JSON"),
        ("[]", "", "must be a JSON object"),
        ("null", "", "must be a JSON object"),
        ('{"pricing": {"limit": NaN}}', "", "is not JSON: NaN"),
        ('{"pricing": {"limit": 1}, "pricing": {"limit": 2}}', "pricing", "stands twice"),
        ('{"pricing": {"limit": 1, "limit": 2}}', "limit", "stands twice"),
        ('{"pricing": {"limit": 1e999}}', "pricing.limit", "wanted seconds"),
        ('{"pricing": {"limit": 1' + "0" * 400 + "}}", "pricing.limit", "wanted seconds"),
        ('{"pricing": {"limit": 1' + "0" * 5000 + "}}", "", "is not JSON"),
        ("[" * 100_000, "", "is not JSON"),
        ('{"\\ud800": {}}', "\\ud800", "is no dependency"),
    ],
)
def test_what_is_no_setting_is_refused_with_its_reason(text: str, path: str, fault: str) -> None:
    told = problems(text)

    assert [path] == list(told)
    assert fault in told[path]


def test_a_method_without_a_policy_is_a_fault_of_the_app() -> None:
    policy_of = DEFAULTS.of_dependency("postgres")

    assert DEFAULTS.of("postgres", "read_job") is policy_of("read_job")
    with pytest.raises(LookupError, match=r"postgres\.read_jobs"):
        policy_of("read_jobs")
    with pytest.raises(LookupError, match="redis"):
        DEFAULTS.of_dependency("redis")
    with pytest.raises(ValueError, match=r"postgres\.read_job is listed twice"):
        PolicyBook([*DEFAULTS, *policies("postgres", "read_job", limit=1.0)])


def test_a_book_can_be_printed() -> None:
    book = overridden({"pricing.GetPrice": {"attempts": 2}, "worker": {"enforcement": "observe"}})

    printed = book.described()
    assert "limit 0.5 s, floor 0.05 s, 2 attempts, enforce" == printed["pricing.GetPrice"]
    assert "limit 0.2 s, floor 0 s, optional, observe" == printed["worker.GetWorkerStatus"]
    assert "postgres.read_job: limit 0.4 s" in str(book)


FIELDS = {
    "limit": st.floats(min_value=0.1, max_value=100),
    "floor": st.floats(min_value=0, max_value=0.1),
    "attempts": st.integers(min_value=1, max_value=5),
    "optional": st.booleans(),
    "enforcement": st.sampled_from(["enforce", "observe"]),
}
NAMES = [f"{policy.dependency}.{policy.method}" for policy in DEFAULTS]
KEYS = st.sampled_from([*NAMES, "pricing", "postgres", "worker"])


@given(st.dictionaries(KEYS, st.fixed_dictionaries({}, optional=FIELDS)))
def test_every_method_gets_its_own_change_or_its_dependencys_or_its_default(
    changes: dict[str, dict[str, Any]],
) -> None:
    book = overridden(changes)

    for default in DEFAULTS:
        policy = book.of(default.dependency, default.method)
        for field in FIELDS:
            candidates = (
                changes.get(f"{default.dependency}.{default.method}", {}),
                changes.get(default.dependency, {}),
            )
            wanted = next((asked[field] for asked in candidates if field in asked), getattr(default, field))
            assert wanted == getattr(policy, field)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KEYS | st.sampled_from([*FIELDS]) | st.text(max_size=5), inner, max_size=4)
    ),
)


@given(JSON)
def test_whatever_stands_in_the_setting_is_a_book_or_a_list_of_problems(value: Any) -> None:
    try:
        methods = [policy.method for policy in overridden(value)]
    except PolicyProblems as error:
        told = error.problems
    else:
        told = {}
        assert [policy.method for policy in DEFAULTS] == methods
    assert all(path.isascii() and problem for path, problem in told.items())
