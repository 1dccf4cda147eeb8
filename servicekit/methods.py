"""The budget of each RPC, as data: every app hands its table to the interceptor."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from servicekit.identity.scopes import Access


class Kind(StrEnum):
    """How a method answers."""

    UNARY = "unary"
    STREAM = "stream"


class Admission(StrEnum):
    """What a call has to pass before it starts, see servicekit.admission."""

    NORMAL = "normal"
    """The adaptive limit, which learns from its latency."""
    COUNT = "count"
    """A count of its own and no lesson: for calls that wait on purpose, however long."""
    DEFERRED = "deferred"
    """A small count of its own until the handler asks to be admitted as a normal call (`Call.admit`)."""
    EXEMPT = "exempt"
    """Nothing: for operators, who come when the server is in trouble."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodPolicy:
    """The limits of one method, in seconds.

    default: the budget of a call without a deadline; None takes the cap.
    cap: the longest budget that any call gets.
    resumable: a stream that can be continued by a cursor. It ends with UNAVAILABLE/RESUME when its time is
        nearly over or the server drains, never with DEADLINE_EXCEEDED.
    exempt: the call gets no budget, no log line and no span.
    admission: what it has to pass where the server limits what is in flight.
    access: what it asks of an authenticated caller; one that says nothing is refused to all of them.
    """

    default: float | None
    cap: float
    kind: Kind = Kind.UNARY
    resumable: bool = False
    exempt: bool = False
    admission: Admission = Admission.NORMAL
    access: Access | None = None

    def __post_init__(self) -> None:
        """ValueError that names the field."""
        if not self.cap > 0:
            raise ValueError(f"cap: {self.cap!r}, wanted seconds above 0")
        if self.default is not None and not 0 < self.default <= self.cap:
            raise ValueError(f"default: {self.default!r}, wanted seconds above 0 and at most the cap")
        if self.resumable and self.kind is not Kind.STREAM:
            raise ValueError("resumable: only a stream can be resumed")


MethodPolicies = Mapping[str, MethodPolicy]
"""By full method name, such as `/hourglass.jobs.v1.JobService/CreateJob`."""

UNKNOWN_METHOD: Final = MethodPolicy(
    default=1.0,
    cap=5.0,
    admission=Admission.EXEMPT,
    access=Access(scopes=frozenset(), of_tenant=False),  # only that it is unknown is told
)
_EXEMPT: Final = ("/grpc.health.", "/grpc.reflection.", "/grpc.channelz.")


def is_exempt(method: str, policies: MethodPolicies) -> bool:
    """Health, reflection and channelz answer whatever happens to the budgets of others."""
    policy = policies.get(method)
    return policy.exempt if policy is not None else method.startswith(_EXEMPT)
