"""What a failed call means for whoever typed the command."""

from typing import Final

import grpc

from budget.errors import BudgetError, BudgetExhausted, BudgetTooLow, UpstreamTimeout
from hourglass_client import DeadlineExceeded, HourglassError
from jobsctl.exits import ExitCode, Failure
from jobsctl.settings import Settings
from presentation.rpc_failure import RpcFailure
from presentation.values import printable

_LATER: Final = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED"})
_OUT_OF_TIME: Final = (BudgetExhausted, BudgetTooLow, DeadlineExceeded, UpstreamTimeout)


def failure_of(error: BudgetError | HourglassError, settings: Settings) -> Failure:
    """The failure that a call's error means: what the server said, or that it said nothing."""
    rpc = None if _is_our_own_end(error) else _rpc_error(error)
    if rpc is not None:
        told = RpcFailure.of(rpc)
        if told.reason or told.code not in _LATER:
            return _refused(told)
        if told.code == "UNAVAILABLE":
            return _later("UNAVAILABLE", f"{settings.server} cannot be reached: {told.message}")
    if isinstance(error, _OUT_OF_TIME):
        return _later("DEADLINE_EXCEEDED", f"{settings.server} was not done {_within(settings)}")
    return Failure(error.reason, str(error))


def _is_our_own_end(error: BudgetError | HourglassError) -> bool:
    """The command's own time is over, whatever the server said last."""
    return isinstance(error, DeadlineExceeded) and error.reason == BudgetExhausted.reason


def _refused(told: RpcFailure) -> Failure:
    after = [] if told.retry_after is None else [f"retry after {told.retry_after:g} s"]
    return Failure(
        told.reason or told.code,
        printable(_message(told)),
        details=[*map(printable, told.violations), *after],
        code=ExitCode.UNAVAILABLE if told.code in _LATER else ExitCode.REFUSED,
    )


def _message(told: RpcFailure) -> str:
    """The server's, unless that only lists the fields, which follow anyway."""
    if told.violations and told.message.startswith(told.violations[0]):
        count = len(told.violations)
        return "a field is wrong" if count == 1 else f"{count} fields are wrong"
    return told.message or told.code


def _later(reason: str, message: str) -> Failure:
    return Failure(reason, printable(message), code=ExitCode.UNAVAILABLE)


def _within(settings: Settings) -> str:
    return "in time" if settings.timeout is None else f"within {settings.timeout:g} s"


def _rpc_error(error: BaseException | None) -> grpc.aio.AioRpcError | None:
    """What the typed error was made of."""
    while error is not None and not isinstance(error, grpc.aio.AioRpcError):
        error = error.__cause__
    return error
