"""AdminService: the invariants of the live database."""

from collections.abc import AsyncIterator, Iterable

from typing_extensions import override

from hourglass.jobs.v1 import admin_service_pb2 as pb
from jobs_service.rpc.admin.read_verify import read_verify
from jobs_service.rpc.admin.room import Context, Room
from jobs_store.errors import VerifyNotConfigured
from jobs_store.verification import Page, Violation
from servicekit.call import call_of
from servicekit.errors import Draining


class VerifyRoom(Room):
    """Verifies page by page, each under a budget of its own; ends with its caller."""

    @override
    async def Verify(self, request: pb.VerifyRequest, context: Context) -> AsyncIterator[pb.VerifyResponse]:
        call = call_of(context)
        wanted = read_verify(request)
        if self._use.verification is None:
            raise VerifyNotConfigured
        async for page in self._use.verification.pages(
            budget_of_page=call.budget.child, tenant=wanted.tenant, names=wanted.names
        ):
            yield _response(page)
            if call.draining.is_set():
                raise Draining


def _response(page: Page) -> pb.VerifyResponse:
    return pb.VerifyResponse(
        invariant=page.invariant,
        checked_count=page.checked,
        violations=_messages(page.violations),
        unchecked=_messages(page.unchecked),
    )


def _messages(found: Iterable[Violation]) -> Iterable[pb.Violation]:
    for each in found:
        yield pb.Violation(tenant_id=each.tenant, subject=each.subject, description=each.description)
