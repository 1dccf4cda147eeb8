"""What operators ask for, each once a request_id: the id, what it was used for, and the audit row."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from budget.postgres import Transaction
from jobs_store.errors import RequestIdReused
from jobs_store.identifiers import TenantId, new_audit_id
from jobs_store.statements import statement
from jobs_store.stored_json import dump

NO_TENANT: Final = TenantId("*")
"""Stands for decisions about no single tenant, such as those about lanes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRequest:
    """Who asks, and why. The request_id names the request: the same again changes nothing."""

    request_id: str
    actor: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked for. `content` tells it from any other request; the digest is taken over it.

    subject: what it is about, such as `job:...`, and details: both for the audit log.
    """

    action: str
    content: Sequence[object]
    subject: str
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def digest(self) -> bytes:
        """What two requests under one id are compared by."""
        return hashlib.sha256(dump(list(self.content)).encode()).digest()


async def take_request(
    transaction: Transaction, tenant: TenantId, request: OperatorRequest, asked: Asked
) -> bool:
    """Takes the request_id and leaves the audit row, if the transaction commits; False when this very request
    was carried out before. Raises RequestIdReused."""
    is_new = await transaction.fetchval(
        statement("take_operator_request"),
        tenant,
        request.request_id,
        asked.action,
        asked.digest,
        new_audit_id(),
        request.actor,
        request.reason,
        asked.subject,
        dump(asked.details),
    )
    if is_new:
        return True
    known = await transaction.fetchrow(statement("find_operator_request"), tenant, request.request_id)
    if known is None or (known["action"], known["request_digest"]) != (asked.action, asked.digest):
        raise RequestIdReused(request.request_id)
    return False
