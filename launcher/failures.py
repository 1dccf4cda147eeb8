"""What an operator is told when one of the launcher's commands fails: a line, not a traceback."""

from typing import Final

import grpc

from budget.errors import BudgetError
from hourglass_client import HourglassError
from launcher.errors import AddressTaken, PostgresError, ProcessFailed
from migrations.errors import MigrationError
from presentation.rpc_failure import RpcFailure
from servicekit.listen import CannotListen
from servicekit.settings import SettingsError

EXPECTED: Final = (
    AddressTaken,
    BudgetError,
    CannotListen,
    HourglassError,
    MigrationError,
    PostgresError,
    ProcessFailed,
    SettingsError,
    grpc.aio.AioRpcError,
)


def told(error: BaseException) -> str:
    """The text of one of the `EXPECTED` errors."""
    return str(RpcFailure.of(error)) if isinstance(error, grpc.aio.AioRpcError) else str(error)
