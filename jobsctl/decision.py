"""Changes that are recorded: why, and the request_id that makes a repeat safe."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast
from uuid import uuid4

from jobsctl.printer import Printer

if TYPE_CHECKING:
    from google.protobuf.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Why, and the request_id that names it; empty for a fresh one."""

    reason: str
    request_id: str = ""


class Decided(Protocol):
    """The answer to a decision: a message that says whether its request_id was known."""

    @property
    def replayed(self) -> bool:
        """Whether nothing changed this time."""


def show_decided(printer: Printer, answer: Decided, facts: Mapping[str, str]) -> None:
    """What stands there after a decision."""
    if printer.json:
        printer.message(cast("Message", answer))
    else:
        printer.facts(facts)
    remark_replay(printer, replayed=answer.replayed)


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
