"""Page tokens of lists that go by name (AIP-158): where the next page begins, bound to its method."""

import base64
import binascii
import hashlib
import hmac
from typing import Final

from jobs_service.domain.page_token import MalformedToken

_DIGEST_BYTES: Final = 12


def name_token(method: str, name: str) -> str:
    """The token of a page that begins at this name."""
    return base64.urlsafe_b64encode(_digest(method, name) + name.encode()).decode().rstrip("=")


def name_of(token: str, method: str) -> str:
    """The name in a token; empty, which no name lies before, for the first page. Raises MalformedToken."""
    if not token:
        return ""
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        name = raw[_DIGEST_BYTES:].decode()
    except (binascii.Error, ValueError):
        raise MalformedToken("was not made by this method") from None
    if not hmac.compare_digest(raw[:_DIGEST_BYTES], _digest(method, name)):
        raise MalformedToken("was not made by this method")
    return name


def _digest(method: str, name: str) -> bytes:
    return hashlib.sha256(f"{method}\0{name}".encode()).digest()[:_DIGEST_BYTES]
