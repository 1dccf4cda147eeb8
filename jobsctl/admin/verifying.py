"""The invariants on the live database: how many rows each was checked on, and what offends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hourglass.jobs.v1.admin_service_pb2 import VerifyRequest, VerifyResponse, Violation
from jobsctl.exits import ExitCode, Failure
from jobsctl.printer import Printer
from jobsctl.session import Session
from presentation.values import counted

COLUMNS: Final = ("invariant", "rows checked", "violations", "not checked")


@dataclass(slots=True)
class Checked:
    """What was found of one invariant, over its pages."""

    rows: int = 0
    violations: list[Violation] = field(default_factory=list)
    unchecked: list[Violation] = field(default_factory=list)


async def verify(session: Session, invariants: Sequence[str], *, tenant: str) -> None:
    """Check them, and show what is found. Raises Failure when one is broken, or is not known to hold."""
    request = VerifyRequest(invariants=[name.upper() for name in invariants], tenant_id=tenant)
    found: dict[str, Checked] = {}
    with session.printer.waiting("checking") as tell:
        async with session.stream("Verify", session.admin.Verify, request) as pages:
            async for page in pages:
                _take(found, page)
                tell(f"checked {page.invariant}: {found[page.invariant].rows:,} rows")
                _show_page(session.printer, page)
    if not session.printer.json:
        _show_summary(session.printer, found)
    _require_all(found)


def _take(found: dict[str, Checked], page: VerifyResponse) -> None:
    checked = found.setdefault(page.invariant, Checked())
    checked.rows += page.checked_count
    checked.violations.extend(page.violations)
    checked.unchecked.extend(page.unchecked)


def _show_page(printer: Printer, page: VerifyResponse) -> None:
    if printer.json:
        printer.json_line(page)
    else:
        _show_findings(printer, page)


def _show_findings(printer: Printer, page: VerifyResponse) -> None:
    for one in page.violations:
        printer.line(f"{page.invariant}: {_named(one)}", style="red")
    for one in page.unchecked:
        printer.line(f"{page.invariant}: not checked: {_named(one)}", style="yellow")


def _named(one: Violation) -> str:
    tenant = f"{one.tenant_id} " if one.tenant_id else ""
    return f"{tenant}{one.subject}: {one.description}"


def _show_summary(printer: Printer, found: Mapping[str, Checked]) -> None:
    rows = [
        (name, f"{checked.rows:,}", str(len(checked.violations)), str(len(checked.unchecked) or ""))
        for name, checked in found.items()
    ]
    printer.table(COLUMNS, rows, right=COLUMNS[1:])
    holding = sum(1 for checked in found.values() if not checked.violations and not checked.unchecked)
    printer.line(f"{holding} of {len(found)} invariants hold")


def _require_all(found: Mapping[str, Checked]) -> None:
    violations = {name: len(checked.violations) for name, checked in found.items() if checked.violations}
    if violations:
        found_in = counted(sum(violations.values()), "violation")
        raise Failure("INVARIANT_BROKEN", f"{found_in} of {', '.join(violations)}")
    unchecked = [name for name, checked in found.items() if checked.unchecked]
    if unchecked:
        raise Failure("NOT_ALL_CHECKED", f"parts of {', '.join(unchecked)}", code=ExitCode.UNAVAILABLE)
