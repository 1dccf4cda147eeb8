"""Page tokens (AIP-158): where the next page begins, bound to the tenant and the filters of the first one.

A token is no secret and grants nothing: a page shows the caller's own jobs, whatever the token says. Thanks
to the digest a token of another list is refused instead of leaving jobs out.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Final
from uuid import UUID

from jobs_store.identifiers import JobId, TenantId
from jobs_store.reading import JobFilter
from jobs_store.stored_json import dump

FIRST_PAGE: Final = JobId(UUID(int=2**128 - 1))
"""No job's id is above this one."""

_ID_BYTES: Final = 16
_DIGEST_BYTES: Final = 12


# Another tenant's token is told like garbage.
_NOT_OURS: Final = "was not made by this method for this tenant and these filters"


class MalformedToken(ValueError):
    """The token was not made by this method for this tenant and these filters."""


def page_token(last: JobId, *, tenant: TenantId, wanted: JobFilter) -> str:
    """The token of the page after the job `last`."""
    raw = last.bytes + _digest(last, tenant, wanted)
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def position_of(token: str, *, tenant: TenantId, wanted: JobFilter) -> JobId:
    """The job after which the page begins; an empty token is the first page. Raises MalformedToken."""
    if not token:
        return FIRST_PAGE
    raw = _decoded(token)
    last = JobId(UUID(bytes=raw[:_ID_BYTES]))
    if not hmac.compare_digest(raw[_ID_BYTES:], _digest(last, tenant, wanted)):
        raise MalformedToken(_NOT_OURS)
    return last


def _decoded(token: str) -> bytes:
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise MalformedToken(_NOT_OURS) from None
    if len(raw) != _ID_BYTES + _DIGEST_BYTES:
        raise MalformedToken(_NOT_OURS)
    return raw


def _digest(last: JobId, tenant: TenantId, wanted: JobFilter) -> bytes:
    states = None if wanted.states is None else sorted(wanted.states)
    bound = [tenant, last, states, wanted.model, wanted.created_from, wanted.created_before]
    return hashlib.sha256(dump(bound).encode()).digest()[:_DIGEST_BYTES]
