"""How a request ends when its status cannot be sent."""

import asyncio
from typing import TYPE_CHECKING, Any, Never

import grpc
import pytest

from servicekit.methods import MethodPolicy
from servicekit.request import Request, Terms

if TYPE_CHECKING:
    from servicekit.report import Report


class Gone:
    """A call whose deadline has passed and whose caller's connection is gone, as core shows it."""

    def time_remaining(self) -> float:
        return 0.0

    async def abort(self, *_status: object) -> Never:
        raise grpc.aio.InternalError("Failed execute_batch")


async def test_a_status_that_core_cannot_send_ends_the_request_like_a_caller_that_left() -> None:
    reports: list[Report] = []
    inner: Any = Gone()
    behaviour: Any = None  # the budget is over before it would run
    request = Request(
        method="/test.v1.TestService/unary_unary",
        policy=MethodPolicy(default=1.0, cap=1.0),
        inner=inner,
        metadata={},
        terms=Terms(),
        finished=reports.append,
    )
    with pytest.raises(asyncio.CancelledError):
        await request.run(behaviour)
    assert ["BUDGET_TOO_LOW"] == [report.verdict.reason for report in reports]
