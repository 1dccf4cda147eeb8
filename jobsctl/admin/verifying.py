"""The invariants on the live database: how many rows each was checked on, and what offends."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hourglass.jobs.v1.admin_service_pb2 import VerifyRequest, VerifyResponse, Violation
from jobsctl.exits import Failure
from jobsctl.printer import Printer
from jobsctl.session import Session


@dataclass(slots=True)
class Checked:
    """What was found of one invariant, over its pages."""

    rows: int = 0
    violations: list[Violation] = field(default_factory=list)


async def verify(session: Session, invariants: Sequence[str], *, tenant: str) -> None:
    """Check them, and show what is found. Raises Failure when one is broken."""
    request = VerifyRequest(invariants=invariants, tenant_id=tenant)
    found: dict[str, Checked] = {}
    async with session.stream("Verify", session.admin.Verify, request) as pages:
        async for page in pages:
            _take(found, page)
            if session.printer.json:
                session.printer.json_line(page)
            else:
                _show_violations(session.printer, page)
    if not session.printer.json:
        _show_summary(session.printer, found)
    _require_none(found)


def _take(found: dict[str, Checked], page: VerifyResponse) -> None:
    checked = found.setdefault(page.invariant, Checked())
    checked.rows += page.checked_count
    checked.violations.extend(page.violations)


def _show_violations(printer: Printer, page: VerifyResponse) -> None:
    for one in page.violations:
        tenant = f"{one.tenant_id} " if one.tenant_id else ""
        printer.line(f"{page.invariant}: {tenant}{one.subject}: {one.description}", style="red")


def _show_summary(printer: Printer, found: dict[str, Checked]) -> None:
    printer.table(
        ("invariant", "rows checked", "violations"),
        [(name, f"{checked.rows:,}", str(len(checked.violations))) for name, checked in found.items()],
        right=("rows checked", "violations"),
    )


def _require_none(found: dict[str, Checked]) -> None:
    broken = [name for name, checked in found.items() if checked.violations]
    if broken:
        count = sum(len(checked.violations) for checked in found.values())
        raise Failure("INVARIANT_BROKEN", f"{count} violations of {', '.join(broken)}")
