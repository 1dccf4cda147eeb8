"""How a simulated model behaves, told by its name.

    simulated                                a plain answer
    simulated-fast                           a preset, see ``PRESETS``
    simulated-fast:tokens=300,stall_after=10 a preset with parameters

Parameters:
``tokens``       what it wants to say; the request's limit cuts it
``tps``          tokens a second; 0 = as fast as possible
``first``        seconds to the first token, or to the status
``status``       answer with this HTTP status; ``code`` is the error's code, ``retry_after`` its Retry-After
``stall_after``, ``reset_after``, ``error_after``, ``cut_after``
                 a fault after that many tokens; 0 = before the response starts
``usage=0``      report no usage
``finish``       the finish reason
``kept=1``       a fault or a client that leaves does not end the generation: the answer can be looked up
``times``        so many requests of one prompt get the status or the fault; those after them get the answer
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

_Number = TypeVar("_Number", int, float)


class FaultKind(StrEnum):
    """What goes wrong in an answer."""

    STALL = "stall"
    """Silence, with the connection open."""
    RESET = "reset"
    """The connection is reset (TCP RST)."""
    ERROR = "error"
    """An error event in the stream, which then ends."""
    CUT = "cut"
    """The stream ends in good order, without finish reason, usage or end mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault after ``after`` tokens; 0 = before the response starts."""

    kind: FaultKind
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """See the module for what the fields mean."""

    tokens: int = 64
    tps: float = 100.0
    first: float = 0.0
    status: int = 200
    code: str = ""
    retry_after: str = ""
    fault: Fault | None = None
    usage: bool = True
    finish: str = "stop"
    kept: bool = False
    times: int | None = None

    def after(self, requests: int) -> Behaviour:
        """The same model once so many requests of one prompt have come before."""
        if self.times is None or requests < self.times:
            return self
        return replace(self, status=200, fault=None)


class UnknownBehaviour(Exception):
    """The model's name asks for something that this server does not know."""


_SLOW_ENOUGH_TO_WATCH: Final = 100_000

PRESETS: Final[Mapping[str, Behaviour]] = {
    "simulated": Behaviour(),
    "simulated-fast": Behaviour(tps=0),
    "simulated-slow": Behaviour(tps=10),
    "simulated-drip": Behaviour(tps=5, tokens=_SLOW_ENOUGH_TO_WATCH),
    "simulated-stall-first": Behaviour(fault=Fault(kind=FaultKind.STALL, after=0)),
    "simulated-stall-mid": Behaviour(fault=Fault(kind=FaultKind.STALL, after=5)),
    "simulated-reset-before": Behaviour(fault=Fault(kind=FaultKind.RESET, after=0)),
    "simulated-reset-mid": Behaviour(fault=Fault(kind=FaultKind.RESET, after=5)),
    "simulated-error-mid": Behaviour(fault=Fault(kind=FaultKind.ERROR, after=5)),
    "simulated-cut-mid": Behaviour(fault=Fault(kind=FaultKind.CUT, after=5)),
    "simulated-no-usage": Behaviour(usage=False),
    "simulated-400": Behaviour(status=400, code="invalid_request"),
    "simulated-401": Behaviour(status=401, code="invalid_api_key"),
    "simulated-429": Behaviour(status=429, code="rate_limit_exceeded", retry_after="2"),
    "simulated-500": Behaviour(status=500, code="internal_error"),
}


def behaviour_of(model: str) -> Behaviour:
    """Raises ``UnknownBehaviour``."""
    name, _, parameters = model.partition(":")
    if name not in PRESETS:
        raise UnknownBehaviour(f"the model {name!r} does not exist")
    behaviour = PRESETS[name]
    for parameter in filter(None, parameters.split(",")):
        key, _, value = parameter.partition("=")
        try:
            behaviour = _with(behaviour, key, value)
        except ValueError as error:
            raise UnknownBehaviour(f"parameter {parameter!r} of model {name!r}: {error}") from error
    return behaviour


def _with(behaviour: Behaviour, key: str, value: str) -> Behaviour:
    match key:
        case "tokens" | "times":
            number = _not_negative(int(value))
            return replace(behaviour, tokens=number) if key == "tokens" else replace(behaviour, times=number)
        case "tps":
            return replace(behaviour, tps=_not_negative(float(value)))
        case "first":
            return replace(behaviour, first=_not_negative(float(value)))
        case "status":
            return replace(behaviour, status=int(value))
        case "code":
            return replace(behaviour, code=value)
        case "retry_after":
            return replace(behaviour, retry_after=value)
        case "usage":
            return replace(behaviour, usage=value == "1")
        case "kept":
            return replace(behaviour, kept=value == "1")
        case "finish":
            return replace(behaviour, finish=value)
        case _:
            fault = Fault(kind=_fault_kind(key), after=_not_negative(int(value)))
            return replace(behaviour, fault=fault)


def _fault_kind(key: str) -> FaultKind:
    kinds = {f"{kind}_after": kind for kind in FaultKind}
    if key not in kinds:
        raise ValueError("no such parameter")
    return kinds[key]


def _not_negative(number: _Number) -> _Number:
    if not number >= 0:
        raise ValueError("must not be negative")
    return number
