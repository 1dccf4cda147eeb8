"""JWT bearer tokens (RFC 7519, RFC 9068): verified by PyJWT, remembered by digest until they end."""

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import jwt

from budget.core import Budget
from servicekit.call import Principal, is_tenant, is_user
from servicekit.identity.errors import InvalidToken, TokenExpired
from servicekit.identity.key_sets import KeySet
from servicekit.identity.scopes import Scopes, known_scopes
from servicekit.identity.services import Service, Services
from servicekit.identity.signing_keys import SigningKeys

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""All are signatures by a private key: a verifier cannot make tokens. `none` and HMAC can never be chosen."""
LONGEST: Final = 8192
KEPT: Final = 4096
_REQUIRED: Final = ("exp", "iss", "aud")
_WHY: Final[tuple[tuple[type[Exception], str], ...]] = (
    (jwt.ImmatureSignatureError, "it is not valid yet"),
    (jwt.InvalidAudienceError, "it is meant for another audience"),
    (jwt.InvalidIssuerError, "it is from another issuer"),
    (jwt.InvalidSignatureError, "its signature is wrong"),
    (jwt.InvalidAlgorithmError, "its algorithm is not allowed"),
    (jwt.InvalidKeyError, "its signing key is too short"),
)

Caller = Principal | Service


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """What a token has to say, and where it says who is meant. leeway: seconds between two clocks.

    scope_prefix: what the names of our scopes begin with in a token of many services.
    """

    issuer: str
    audience: str
    algorithms: frozenset[str]
    leeway: float = 5.0
    tenant_claim: str = "tenant"
    user_claim: str = "sub"
    scope_claim: str = "scope"
    scope_prefix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verified:
    caller: Caller
    ends: float
    keys: KeySet


class Tokens:
    """Who stands behind a token. Verified ones are kept as digests: nobody finds a token in memory by them.

    wall: seconds since 1970, which tokens are dated by.
    """

    def __init__(
        self,
        keys: SigningKeys,
        rules: TokenRules,
        services: Services,
        *,
        capacity: int = KEPT,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self._rules = rules
        self._services = services
        self._capacity = capacity
        self._wall = wall
        self._verified: dict[bytes, _Verified] = {}

    async def caller(self, token: str, budget: Budget) -> Caller:
        """The principal or the service. Raises InvalidToken, TokenExpired, SigningKeysUnavailable."""
        digest = hashlib.sha256(token.encode()).digest()
        verified = self._verified.get(digest)
        if verified is not None:
            if verified.keys is self._keys.current and self._wall() < verified.ends:
                return verified.caller
            del self._verified[digest]
        key = await self._keys.key(_key_id(token), budget)
        claims = self._claims(token, key)
        caller = self._caller_of(claims)
        self._keep(digest, caller, ends=float(claims["exp"]) + self._rules.leeway)
        return caller

    def _claims(self, token: str, key: jwt.PyJWK) -> Mapping[str, Any]:
        rules = self._rules
        try:
            return jwt.decode(
                token,
                key,
                algorithms=list(rules.algorithms),
                audience=rules.audience,
                issuer=rules.issuer,
                leeway=rules.leeway,
                options={"require": [*_REQUIRED], "enforce_minimum_key_length": True},
            )
        except jwt.ExpiredSignatureError as error:
            raise TokenExpired from error
        except _BROKEN as error:
            _refuse(error)

    def _caller_of(self, claims: Mapping[str, Any]) -> Caller:
        user = _text(claims, self._rules.user_claim)
        service = self._services.of_subject(user)
        if service is not None:
            return service
        tenant = _text(claims, self._rules.tenant_claim)
        if not is_tenant(tenant):
            raise InvalidToken(f"its claim {self._rules.tenant_claim} names no tenant")
        if not is_user(user):
            raise InvalidToken(f"its claim {self._rules.user_claim} names no user")
        return Principal(tenant=tenant, user=user, scopes=self._scopes(claims), authenticated_by="token")

    def _scopes(self, claims: Mapping[str, Any]) -> Scopes:
        """Of a text with spaces (RFC 8693) or of a list; none where the claim is missing."""
        claim, prefix = claims.get(self._rules.scope_claim, ""), self._rules.scope_prefix
        names = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else []
        ours = [name for name in names if isinstance(name, str) and name.startswith(prefix)]
        return known_scopes(name.removeprefix(prefix) for name in ours)

    def _keep(self, digest: bytes, caller: Caller, *, ends: float) -> None:
        self._verified[digest] = _Verified(caller=caller, ends=ends, keys=self._keys.current)
        if len(self._verified) > self._capacity:
            del self._verified[next(iter(self._verified))]


# The header of a token is read before anything of it is verified: whatever it makes the parsers do ends here.
_BROKEN: Final = (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError)


def _key_id(token: str) -> str:
    if len(token) > LONGEST:
        raise InvalidToken(f"it is longer than {LONGEST} characters")
    try:
        key_id = jwt.get_unverified_header(token).get("kid")
    except _BROKEN as error:
        _refuse(error)
    if not isinstance(key_id, str):
        raise InvalidToken("it names no signing key")
    return key_id


def _text(claims: Mapping[str, Any], claim: str) -> str:
    value = claims.get(claim)
    if not isinstance(value, str):
        raise InvalidToken(f"it has no claim {claim}")
    return value


def _refuse(error: Exception) -> NoReturn:
    if isinstance(error, jwt.MissingRequiredClaimError):
        raise InvalidToken(f"it has no claim {error.claim}") from error
    why = next((why for kind, why in _WHY if isinstance(error, kind)), "it is malformed")
    raise InvalidToken(why) from error
