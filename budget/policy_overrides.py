"""Changes to policies, asked for in one setting: a JSON object.

    {"pricing.GetPrice": {"limit": 0.3, "floor": 0.02, "attempts": 2}, "postgres": {"enforcement": "observe"}}

A key is a dependency (all its methods) or `dependency.method`, which wins over its bare dependency wherever
it stands. Only what the defaults name can be changed, so that a typing error is a start that fails and not a
limit that never holds.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, Never, TypeAlias

from budget.policy import Enforcement, Policy

Changes: TypeAlias = Mapping[str, Any]

_LONGEST: Final = 1e6  # seconds; more is a mistake of units


class PolicyProblems(ValueError):
    """The setting cannot be used. `problems` has every fault by its path, such as `pricing.GetPrice.limit`;
    the path of a fault of the whole is empty."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = {_printable(path): problem for path, problem in problems.items()}
        super().__init__("; ".join(f"{path} {problem}".strip() for path, problem in self.problems.items()))


class _Target(NamedTuple):
    dependency: str
    method: str  # empty: all of them


@dataclass(frozen=True, slots=True)
class _Field:
    wanted: str
    holds: Callable[[Any], bool]
    read: Callable[[Any], Any] = lambda value: value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LONGEST


_FIELDS: Final[Mapping[str, _Field]] = {
    "limit": _Field("seconds above 0, at most 1000000", lambda value: _is_number(value) and value > 0, float),
    "floor": _Field("seconds, 0 to 1000000", lambda value: _is_number(value) and value >= 0, float),
    "attempts": _Field("a whole number, 1 or more", lambda value: type(value) is int and value >= 1),
    "optional": _Field("true or false", lambda value: isinstance(value, bool)),
    "enforcement": _Field("enforce or observe", lambda value: value in list(Enforcement), Enforcement),
}


def overridden(defaults: Sequence[Policy], text: str) -> list[Policy]:
    """The defaults with the changes that `text` asks for. PolicyProblems lists everything that is wrong."""
    problems: dict[str, str] = {}
    changes = {
        target: _checked(path, asked, problems)
        for path, asked in _parsed(text).items()
        if (target := _target(path, defaults, problems))
    }
    changed = [_applied(policy, changes, problems) for policy in defaults]
    if problems:
        raise PolicyProblems(problems)
    return changed


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        parsed = json.loads(text, object_pairs_hook=_unrepeated, parse_constant=_no_number)
    except PolicyProblems:
        raise
    except (ValueError, RecursionError) as error:
        raise PolicyProblems({"": f"is not JSON: {error}"}) from error
    if not isinstance(parsed, dict):
        raise PolicyProblems({"": "must be a JSON object, by dependency or dependency.method"})
    return parsed


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """JSON lets a key stand twice and Python keeps the last: one of them would be lost in silence."""
    names = [name for name, _ in pairs]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise PolicyProblems(dict.fromkeys(sorted(repeated), "stands twice in one object"))
    return dict(pairs)


def _no_number(constant: str) -> Never:
    raise PolicyProblems({"": f"is not JSON: {constant} is no number"})


def _target(path: str, defaults: Sequence[Policy], problems: dict[str, str]) -> _Target | None:
    dependency, dot, method = path.partition(".")
    methods = [policy.method for policy in defaults if policy.dependency == dependency]
    if not methods:
        known = sorted({policy.dependency for policy in defaults})
        problems[path] = f"is no dependency here; {_nearest(dependency, known)}"
    elif dot and method not in methods:
        problems[path] = f"is no method of {dependency}; {_nearest(method, methods)}"
    else:
        return _Target(dependency, method)
    return None


def _nearest(name: str, known: Sequence[str]) -> str:
    nearest = get_close_matches(name, known, n=1)
    return f"did you mean {nearest[0]}?" if nearest else f"known: {', '.join(known)}"


def _checked(path: str, asked: object, problems: dict[str, str]) -> Changes:
    if not isinstance(asked, dict):
        problems[path] = f"must be an object with some of {', '.join(_FIELDS)}"
        return {}
    good = {}
    for name, value in asked.items():
        field = _FIELDS.get(name)
        if field is None:
            problems[f"{path}.{name}"] = f"is no field of a policy; {_nearest(name, list(_FIELDS))}"
        elif not field.holds(value):
            problems[f"{path}.{name}"] = f"is {_shown(value)}, wanted {field.wanted}"
        else:
            good[name] = field.read(value)
    return good


def _applied(policy: Policy, changes: Mapping[_Target, Changes], problems: dict[str, str]) -> Policy:
    to_all = changes.get(_Target(policy.dependency, ""), {})
    to_it = changes.get(_Target(policy.dependency, policy.method), {})
    try:
        return replace(policy, **{**to_all, **to_it})
    except ValueError as error:
        field, _, fault = str(error).partition(": ")
        problems[f"{policy.dependency}.{policy.method}.{field}"] = f"is {fault}"
        return policy


def _printable(path: str) -> str:
    return path.encode("ascii", "backslashreplace").decode()


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
