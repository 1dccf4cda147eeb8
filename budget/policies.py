"""The policies of a process, by dependency and method: what an app gives as data."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Self

from budget.policy import Enforcement, Policy
from budget.policy_overrides import PolicyProblems, overridden

__all__ = ["PolicyBook", "PolicyProblems", "policies"]


def policies(
    dependency: str,
    *methods: str,
    limit: float,
    floor: float = 0.0,
    attempts: int = 1,
    optional: bool = False,
    enforcement: Enforcement = Enforcement.ENFORCE,
) -> tuple[Policy, ...]:
    """The same policy for several methods of a dependency."""
    return tuple(
        Policy(
            dependency=dependency,
            method=method,
            limit=limit,
            floor=floor,
            attempts=attempts,
            optional=optional,
            enforcement=enforcement,
        )
        for method in methods
    )


class PolicyBook:
    """One policy for each method of each dependency. It never changes."""

    def __init__(self, listed: Iterable[Policy]) -> None:
        """ValueError when a method is listed twice."""
        self._policies: dict[tuple[str, str], Policy] = {}
        for policy in listed:
            key = (policy.dependency, policy.method)
            if key in self._policies:
                raise ValueError(f"{'.'.join(key)} is listed twice")
            self._policies[key] = policy

    def of(self, dependency: str, method: str) -> Policy:
        """The policy of one method. LookupError when there is none: a fault of the app's table."""
        policy = self._policies.get((dependency, method))
        if policy is None:
            raise LookupError(f"{dependency}.{method} has no policy")
        return policy

    def of_dependency(self, dependency: str) -> Callable[[str], Policy]:
        """`policy_of(method)` for one dependency, as stores take it. LookupError when nothing of it is
        listed."""
        if all(policy.dependency != dependency for policy in self):
            raise LookupError(f"{dependency} has no policies")
        return lambda method: self.of(dependency, method)

    def overridden(self, text: str) -> Self:
        """This book with the changes of one setting, see budget.policy_overrides. PolicyProblems says all
        that is wrong with them."""
        return type(self)(overridden(tuple(self), text))

    def described(self) -> Mapping[str, str]:
        """Each policy as text, by `dependency.method`, for the start-up log. Nothing in it is secret."""
        return {f"{policy.dependency}.{policy.method}": _described(policy) for policy in self}

    def __iter__(self) -> Iterator[Policy]:
        return iter(self._policies.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PolicyBook) and self._policies == other._policies

    def __hash__(self) -> int:
        return hash(frozenset(self._policies.values()))

    def __str__(self) -> str:
        return "; ".join(f"{name}: {text}" for name, text in self.described().items())


def _described(policy: Policy) -> str:
    parts = [f"limit {policy.limit:g} s", f"floor {policy.floor:g} s"]
    if policy.attempts > 1:
        parts.append(f"{policy.attempts} attempts")
    if policy.optional:
        parts.append("optional")
    return ", ".join((*parts, policy.enforcement.value))
