"""What core's words about a connection that could not be made mean."""

from collections.abc import Mapping
from typing import Final

_FAILED: Final = "failed to connect to all addresses"
# The first that fits counts. A server that speaks TLS, and one that demands a certificate, only hang up.
_HINTS: Final[Mapping[str, str]] = {
    "WRONG_VERSION_NUMBER": "the server does not speak TLS",
    "certificate has expired": "the server's certificate has expired",
    "CERTIFICATE_VERIFY_FAILED": "the server's certificate is not of an authority that is trusted here",
    "Hostname Verification Check failed": "the server's certificate is for another name",
    "Socket closed": "does the server speak TLS, or demand a certificate?",
    "Connection reset by peer": "does the server speak TLS, or demand a certificate?",
}


def with_hint(details: str) -> str:
    """The text of a failed call, and what to look at when it failed before it began."""
    if _FAILED not in details:
        return details
    found = (hint for sign, hint in _HINTS.items() if sign in details)
    return f"{details} ({hint})" if (hint := next(found, "")) else details
