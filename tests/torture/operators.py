"""What operators decide about jobs that failed or are held: as planned for each job, once a request_id."""

import asyncio
from typing import Any, Final, Protocol

from hourglass.jobs.v1 import jobs_service_pb2 as pb
from tests.torture.calls import Calls, Refused
from tests.torture.funds import Funds
from tests.torture.kinds import Kind
from tests.torture.planned_jobs import FAIL, Submission
from tests.torture.tally import Tally

PAUSE: Final = 0.5
REASON: Final = "torture"


class Known(Protocol):
    """A job that was acknowledged."""

    @property
    def submission(self) -> Submission: ...

    @property
    def job_id(self) -> str: ...


class Operator:
    """Decides."""

    def __init__(self, calls: Calls, funds: Funds, tally: Tally) -> None:
        self._calls = calls
        self._funds = funds
        self._tally = tally

    async def retry(self, known: Known, decided: int) -> bool:
        """RetryJob of a FAILED job, while its plan has retries left; False when it stays FAILED."""
        if decided >= known.submission.retries:
            return False
        request = pb.RetryJobRequest(
            job_id=known.job_id, request_id=f"{known.submission.key} retry {decided}", reason=REASON
        )
        match await self._decide("RetryJob", known, request):
            case "":
                self._tally.strike(Kind.RETRY_JOB, known.job_id)
                return True
            case "JOB_NOT_FAILED":
                return True
            case "PROVIDER_COST_LIMIT":
                return False
            case refused:
                self._tally.breach(f"RetryJob of {known.job_id} was refused: {refused}")
                return False

    async def resolve(self, known: Known, decided: int) -> bool:
        """ResolveJob of a HELD job as planned; FAIL when another attempt may cost too much.

        False when it was not held any more.
        """
        wanted = known.submission.resolution
        reason = await self._resolve(known, decided, wanted)
        if reason == "PROVIDER_COST_LIMIT":
            wanted, reason = FAIL, await self._resolve(known, decided, FAIL)
        match reason:
            case "":
                self._tally.strike(Kind.RESOLVE_JOB, f"{known.job_id}: {wanted}")
                return True
            case "JOB_NOT_HELD":
                self._tally.note("holds that had ended by themselves")
            case _:
                self._tally.breach(f"ResolveJob of {known.job_id} was refused: {reason}")
        return False

    async def _resolve(self, known: Known, decided: int, wanted: str) -> str:
        request = pb.ResolveJobRequest(
            job_id=known.job_id,
            resolution=pb.JobResolution.Value(f"JOB_RESOLUTION_{wanted}"),
            request_id=f"{known.submission.key} resolve {decided} {wanted}",
            reason=REASON,
        )
        return await self._decide("ResolveJob", known, request)

    async def _decide(self, method: str, known: Known, request: Any) -> str:
        """The reason of its refusal; empty when it was carried out. Too little money is waited for."""
        tenant, server = known.submission.tenant, known.submission.server
        while True:
            try:
                await self._calls.jobs(method, tenant, request, server=server)
            except Refused as refused:
                if refused.reason != "INSUFFICIENT_FUNDS":
                    return refused.reason
            else:
                return ""
            self._funds.refusals += 1
            await asyncio.sleep(PAUSE)
