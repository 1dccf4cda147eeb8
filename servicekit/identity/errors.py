"""How a caller fails to be known, or to be allowed. None says whether anything of others exists."""

from collections.abc import Iterable
from typing import Final

from servicekit.identity.scopes import Scope, spelled

RETRY_AFTER: Final = 1.0


class IdentityError(Exception):
    """A caller is not let in. `reason` stands in servicekit.reasons."""

    reason: str


class MissingCredentials(IdentityError):
    """No token, no key, no certificate."""

    reason = "MISSING_CREDENTIALS"

    def __init__(self) -> None:
        super().__init__("credentials are required: send authorization: Bearer with a token or an API key")


class InvalidToken(IdentityError):
    """A token is not good. `why` is ours, never the token's own text."""

    reason = "INVALID_TOKEN"

    def __init__(self, why: str) -> None:
        self.metadata = {"why": why}
        super().__init__(f"the token is not accepted: {why}")


class TokenExpired(IdentityError):
    """A token's time is over."""

    reason = "TOKEN_EXPIRED"

    def __init__(self) -> None:
        super().__init__("the token has expired")


class UnknownApiKey(IdentityError):
    """Malformed, unknown, or with another secret: told alike, so that nobody learns which keys there are."""

    reason = "UNKNOWN_API_KEY"

    def __init__(self) -> None:
        super().__init__("the API key is not known")


class ApiKeyExpired(IdentityError):
    """Said to holders of the right secret only."""

    reason = "API_KEY_EXPIRED"

    def __init__(self) -> None:
        super().__init__("the API key has expired")


class ApiKeyRevoked(IdentityError):
    """Said to holders of the right secret only."""

    reason = "API_KEY_REVOKED"

    def __init__(self) -> None:
        super().__init__("the API key has been revoked")


class UnknownService(IdentityError):
    """A verified certificate without a service of ours in its names."""

    reason = "UNKNOWN_SERVICE"

    def __init__(self) -> None:
        super().__init__("the certificate names no service that is known here, and there is no token")


class SigningKeysUnavailable(IdentityError):
    """An unknown signing key, while nobody can be asked about it."""

    reason = "SIGNING_KEYS_UNAVAILABLE"
    retry_after = RETRY_AFTER

    def __init__(self) -> None:
        super().__init__("the token's signing key is not known, and the issuer's keys cannot be had now")


class ScopeMissing(IdentityError):
    """The caller lacks scopes; `field` is what of the request needs them, empty when all of it does."""

    reason = "SCOPE_MISSING"

    def __init__(self, missing: Iterable[Scope], *, field: str = "") -> None:
        scopes = spelled(missing)
        self.metadata = {"scopes": scopes, **({"field": field} if field else {})}
        super().__init__(f"{field or 'the call'} needs the scope {scopes}")


class DelegationRefused(IdentityError):
    """Somebody who is no trusted service speaks for others."""

    reason = "DELEGATION_REFUSED"

    def __init__(self, header: str) -> None:
        self.metadata = {"header": header}
        super().__init__(f"{header} is taken from trusted services only; your credentials say who you are")


class ServicesOnly(IdentityError):
    """This server is for services."""

    reason = "SERVICES_ONLY"

    def __init__(self) -> None:
        super().__init__("this server answers only the services that it was told of")
