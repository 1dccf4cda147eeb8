"""The text of an API key: `hgk_TENANT_ID_SECRET`, then eight digits that tell a mistyped one at once.

The secret has 256 random bits, so its plain SHA-256 can be stored: there is nothing to guess that a slow hash
would protect (NIST SP 800-63B, 5.1.2.2). The id finds the row. The tenant lets the row be looked up as that
tenant and no other; it is only a claim until the digest agrees. The fixed beginning is for scanners that look
for lost secrets.
"""

import base64
import hashlib
import re
import secrets
import zlib
from dataclasses import dataclass, field
from typing import Final

PREFIX: Final = "hgk_"
_TEXT: Final = re.compile(r"(hgk_([a-z0-9-]{1,63})_([a-z2-7]{16})_[a-z2-7]{52})([0-9a-f]{8})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyText:
    """A key as its holder knows it. `text` is the secret; tenant and key_id may be told."""

    text: str = field(repr=False)
    tenant: str
    key_id: str

    @property
    def digest(self) -> bytes:
        """What is stored of it, 32 bytes."""
        return hashlib.sha256(self.text.encode()).digest()


def new_api_key(tenant: str) -> ApiKeyText:
    """A fresh key of a tenant."""
    key_id, secret = _random(10), _random(32)
    text = f"{PREFIX}{tenant}_{key_id}_{secret}"
    return ApiKeyText(text=f"{text}{_checksum(text)}", tenant=tenant, key_id=key_id)


def parsed_api_key(text: str) -> ApiKeyText | None:
    """The key that a text is; None for what never was one, which costs no look-up."""
    matched = _TEXT.fullmatch(text)
    if matched is None or matched[4] != _checksum(matched[1]):
        return None
    return ApiKeyText(text=text, tenant=matched[2], key_id=matched[3])


def _random(size: int) -> str:
    return base64.b32encode(secrets.token_bytes(size)).decode().rstrip("=").lower()


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
