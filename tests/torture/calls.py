"""Calls that go on until their outcome is known: every error of ours is either an answer or tried again."""

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final

import grpc

from presentation.rpc_failure import RpcFailure
from tests.torture.member import Away
from tests.torture.stage import Stage
from tests.torture.tally import Tally

CALL_LIMIT: Final = 2.0
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 8.0
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

        def try_at(at: int) -> Any:
            return self.try_jobs(method, tenant, request, server=at, limit=limit)

        return await self._until_known(method, try_at, server)

    async def admin(self, method: str, request: Any, *, server: int = 0) -> Any:
        """The same with AdminService."""

        def try_at(at: int) -> Any:
            call = getattr(self.stage.admin(at), method)
            return call(request, timeout=CALL_LIMIT, metadata=identity(OPERATORS))

        return await self._until_known(method, try_at, server)

    async def _until_known(self, method: str, try_at: Callable[[int], Any], server: int) -> Any:
        longest = FIRST_PAUSE
        while True:
            try:
                return await try_at(server)
            except Away:
                least = 0.0
            except grpc.aio.AioRpcError as error:
                least = self.check(method, error)
            server += 1
            # As a good caller pauses: as long as it is told to, longer and longer, and spread.
            await asyncio.sleep(least + random.uniform(longest / 2, longest))
            longest = min(2 * longest, LONGEST_PAUSE)

    def try_jobs(
        self, method: str, tenant: str, request: Any, *, server: int, limit: float = CALL_LIMIT
    ) -> Any:
        """One call, as gRPC's call object. Raises Away; awaiting it raises AioRpcError."""
        stub = self.stage.jobs(server)
        return getattr(stub, method)(request, timeout=limit, metadata=identity(tenant))

    def check(self, what: str, error: grpc.aio.AioRpcError) -> float:
        """Raise Refused for an answer; else the call may be made again, after so many seconds."""
        failure = RpcFailure.of(error)
        self._tally.note(f"{what} {failure.code}/{failure.reason}")
        if failure.code in FAULTS:
            self._tally.breach(f"{what} was answered {failure}")
        elif failure.code not in AGAIN and failure.reason != OVERLOADED:
            raise Refused(failure)
        return failure.retry_after or 0.0


def identity(tenant: str) -> tuple[tuple[str, str], ...]:
    """Who calls, as metadata."""
    return (("x-tenant-id", tenant), ("x-user-id", "ada"))
