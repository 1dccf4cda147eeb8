"""How a request ended, and what of it can still be told to the caller.

grpc.aio reports the caller's cancel, the passing of its deadline, the end of the server and a stray
`cancel()` in the same way: as a CancelledError in the handler. What tells them apart is gathered in
`Circumstances`; `judge` decides.
"""

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import grpc
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode

from budget.errors import BudgetExhausted
from servicekit.errors import (
    Draining,
    Resume,
    internal_status,
    known_error,
    reason_of,
    status_of,
)


class Ending(StrEnum):
    """The cause of a request's end; `hourglass.budget.v1.BudgetEnding` has the same names."""

    OK = "ok"
    ERROR = "error"
    CALLER_CANCELLED = "caller_cancelled"
    BUDGET_EXHAUSTED = "budget_exhausted"
    UPSTREAM_TIMEOUT = "upstream_timeout"
    DRAINING = "draining"
    SPURIOUS_CANCEL = "spurious_cancel"
    CALLER_DEADLINE = "caller_deadline"


class Cut(StrEnum):
    """Why our own timer ended a handler."""

    BUDGET = "budget"
    DRAIN = "drain"


class CallerGone(Exception):
    """The stream broke under a read or a write: nobody is there to be answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What was true when the handler ended.

    cut: our own timer ended it. cancelled: somebody cancelled the task from outside.
    deadline_passed: the caller's deadline was over, give or take what core rounds.
    draining: the server has begun to shut down. stopping: the grace is over, core cancels everything.
    """

    cut: Cut | None = None
    cancelled: bool = False
    deadline_passed: bool = False
    resumable: bool = False
    draining: bool = False
    stopping: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The end of a request. `status` is what to send; None when nothing can be sent, or nothing is wrong."""

    ending: Ending
    code: StatusCode
    reason: str = ""
    status: Status | None = None
    error: BaseException | None = None


SUCCESS: Final = Verdict(ending=Ending.OK, code=StatusCode.OK)
_CODES: Final = {code.value[0]: code for code in StatusCode}
_ENDINGS: Final = {
    "BUDGET_EXHAUSTED": Ending.BUDGET_EXHAUSTED,
    "BUDGET_TOO_LOW": Ending.BUDGET_EXHAUSTED,
    "UPSTREAM_TIMEOUT": Ending.UPSTREAM_TIMEOUT,
    "DATABASE_TIMEOUT": Ending.UPSTREAM_TIMEOUT,
    "DRAINING": Ending.DRAINING,
}


def caller_deadline_passed(*, remaining: float | None, incoming: float | None) -> bool:
    """Whether a cancel counts as the caller's deadline.

    Core cancels up to a few milliseconds early, and timeouts were rounded up by up to 1 % on their way.
    """
    if remaining is None or incoming is None:
        return False
    return remaining <= max(0.010, 0.015 * incoming)


def judge(error: BaseException, seen: Circumstances) -> Verdict:
    """The verdict on a handler that ended with `error`."""
    if isinstance(error, CallerGone) or (isinstance(error, asyncio.CancelledError) and seen.cancelled):
        return _departed(error, seen)
    if isinstance(error, asyncio.CancelledError):
        return _ours(Ending.SPURIOUS_CANCEL, "SPURIOUS_CANCEL", error)
    error = known_error(error)
    if reason_of(error) is not None:
        return _told(error, seen)
    if seen.cut is not None:
        return _told(_cut(seen), seen)
    if isinstance(error, grpc.aio.AioRpcError) and error.code() is StatusCode.DEADLINE_EXCEEDED:
        return _ours(Ending.UPSTREAM_TIMEOUT, "UPSTREAM_TIMEOUT", error)
    return _ours(Ending.ERROR, "INTERNAL", error)


def aborted(code: StatusCode, status: Status) -> Verdict:
    """The verdict on a handler that sent a status itself."""
    info = ErrorInfo()
    named = any(detail.Unpack(info) for detail in status.details)
    reason = info.reason if named else code.name
    return Verdict(ending=_ENDINGS.get(reason, Ending.ERROR), code=code, reason=reason, status=status)


def _departed(error: BaseException, seen: Circumstances) -> Verdict:
    if seen.stopping:
        return Verdict(ending=Ending.DRAINING, code=StatusCode.UNAVAILABLE, reason="DRAINING", error=error)
    if seen.deadline_passed:
        return Verdict(ending=Ending.CALLER_DEADLINE, code=StatusCode.DEADLINE_EXCEEDED, error=error)
    return Verdict(ending=Ending.CALLER_CANCELLED, code=StatusCode.CANCELLED, error=error)


def _cut(seen: Circumstances) -> Exception:
    if seen.resumable:
        return Resume()
    return Draining() if seen.cut is Cut.DRAIN else BudgetExhausted()


def _told(error: BaseException, seen: Circumstances) -> Verdict:
    status = status_of(error)
    reason = reason_of(error)
    assert reason is not None
    ending = _ENDINGS.get(reason.name, Ending.ERROR)
    if reason.name == "RESUME":
        ending = Ending.DRAINING if seen.draining else Ending.BUDGET_EXHAUSTED
    return Verdict(ending=ending, code=_CODES[status.code], reason=reason.name, status=status, error=error)


def _ours(ending: Ending, reason: str, error: BaseException) -> Verdict:
    status = internal_status(reason)
    return Verdict(ending=ending, code=_CODES[status.code], reason=reason, status=status, error=error)
