"""AdminService.Verify, called while everything goes wrong: what holds at every commit has to hold then."""

import asyncio
from collections.abc import Sequence
from typing import Final

import grpc

from hourglass.jobs.v1.admin_service_pb2 import VerifyRequest
from jobs_store.invariants.registry import ALWAYS, INVARIANTS
from tests.torture.calls import OPERATORS, Calls, identity
from tests.torture.member import Away
from tests.torture.tally import Tally

INTERVAL: Final = 5.0
LIMIT: Final = 30.0


class Verifier:
    """Verifies again and again, at one server and the other in turns."""

    def __init__(self, calls: Calls, tally: Tally) -> None:
        self._calls = calls
        self._tally = tally

    async def run(self) -> None:
        """Until cancelled; what a fault cuts short begins anew."""
        server = 0
        while True:
            await asyncio.sleep(INTERVAL)
            await self._verify(ALWAYS, server)
            server += 1

    async def at_the_end(self) -> None:
        """Everything, what is due in time included; has to come to its end at one of the servers."""
        if not (await self._verify(tuple(INVARIANTS), 0) or await self._verify(tuple(INVARIANTS), 1)):
            self._tally.breach("Verify did not come to its end")

    async def _verify(self, names: Sequence[str], server: int) -> bool:
        """Whether all of it was verified; violations are breaches."""
        seen, unchecked = set(), 0
        try:
            stub = self._calls.stage.admin(server)
            request = VerifyRequest(invariants=names)
            async for page in stub.Verify(request, timeout=LIMIT, metadata=identity(OPERATORS)):
                seen.add(page.invariant)
                unchecked += len(page.unchecked)
                self._tally.breaches(
                    [f"{page.invariant}: {each.subject} {each.description}" for each in page.violations]
                )
        except Away:
            return False
        except grpc.aio.AioRpcError as error:
            self._calls.check("Verify", error)
            return False
        if seen != set(names):
            self._tally.breach(f"Verify said nothing of {', '.join(set(names) - seen)}")
        if unchecked:
            return False
        self._tally.note("verified while faults struck" if names is ALWAYS else "verified at the end")
        return True
