"""Changes that are recorded: why, and the request_id that makes a repeat safe."""

from dataclasses import dataclass
from uuid import uuid4

from jobsctl.printer import Printer


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Why, and the request_id that names it; empty for a fresh one."""

    reason: str
    request_id: str = ""


def request_id_of(decision: Decision, printer: Printer) -> str:
    """The given request_id, or a fresh one, told before the call: it can be repeated whatever comes."""
    if decision.request_id:
        return decision.request_id
    request_id = f"jobsctl-{uuid4()}"
    printer.remark(f"request id {request_id} (repeat safely with --request-id {request_id})")
    return request_id


def remark_replay(printer: Printer, *, replayed: bool) -> None:
    """Say that the request_id was known."""
    if replayed:
        printer.remark("the request id was known: nothing changed this time")
