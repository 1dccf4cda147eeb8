"""Calls that go on until their outcome is known: every error of ours is either an answer or tried again."""

import asyncio
from typing import Any, Final

import grpc

from presentation.rpc_failure import RpcFailure
from tests.torture.member import Away
from tests.torture.stage import Stage
from tests.torture.tally import Tally

CALL_LIMIT: Final = 2.0
PAUSE: Final = 0.15
OPERATORS: Final = "operators"
FAULTS: Final = frozenset({"INTERNAL", "UNKNOWN", "UNIMPLEMENTED", "DATA_LOSS"})
"""Codes that no caller may ever see."""
AGAIN: Final = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "CANCELLED"})
OVERLOADED: Final = "OVERLOADED"


class Refused(Exception):
    """An answer that says no, by its reason."""

    def __init__(self, failure: RpcFailure) -> None:
        self.reason = failure.reason
        super().__init__(str(failure))


class Calls:
    """Makes calls at whichever server is there."""

    def __init__(self, stage: Stage, tally: Tally) -> None:
        self.stage = stage
        self._tally = tally

    async def jobs(
        self, method: str, tenant: str, request: Any, *, server: int = 0, limit: float = CALL_LIMIT
    ) -> Any:
        """Call JobService at one server, then at the other, until one answers. Raises Refused."""
        while True:
            try:
                return await self.try_jobs(method, tenant, request, server=server, limit=limit)
            except Away:
                pass
            except grpc.aio.AioRpcError as error:
                self.check(method, error)
            server += 1
            await asyncio.sleep(PAUSE)

    async def admin(self, method: str, request: Any, *, server: int = 0) -> Any:
        """The same with AdminService."""
        while True:
            try:
                stub = self.stage.admin(server)
                return await getattr(stub, method)(request, timeout=CALL_LIMIT, metadata=identity(OPERATORS))
            except Away:
                pass
            except grpc.aio.AioRpcError as error:
                self.check(method, error)
            server += 1
            await asyncio.sleep(PAUSE)

    def try_jobs(
        self, method: str, tenant: str, request: Any, *, server: int, limit: float = CALL_LIMIT
    ) -> Any:
        """One call, as gRPC's call object. Raises Away; awaiting it raises AioRpcError."""
        stub = self.stage.jobs(server)
        return getattr(stub, method)(request, timeout=limit, metadata=identity(tenant))

    def check(self, what: str, error: grpc.aio.AioRpcError) -> None:
        """Raise Refused for an answer; return when the call may be made again."""
        failure = RpcFailure.of(error)
        self._tally.note(f"{what} {failure.code}/{failure.reason}")
        if failure.code in FAULTS:
            self._tally.breach(f"{what} was answered {failure}")
        elif failure.code not in AGAIN and failure.reason != OVERLOADED:
            raise Refused(failure)


def identity(tenant: str) -> tuple[tuple[str, str], ...]:
    """Who calls, as metadata."""
    return (("x-tenant-id", tenant), ("x-user-id", "ada"))
