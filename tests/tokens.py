"""A token issuer for tests: signs what it is told to, and publishes its keys."""

import json
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

ISSUER: Final = "https://issuer.test"
AUDIENCE: Final = "hourglass"


@cache
def rsa_key(number: int = 0) -> rsa.RSAPrivateKey:
    """One of a few keys, made once: RSA keys take their time."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@cache
def ec_key(name: str) -> ec.EllipticCurvePrivateKey:
    """The key of a name."""
    return ec.generate_private_key(ec.SECP256R1())


def public_jwk(key_id: str, **members: Any) -> dict[str, Any]:
    """A key as an issuer publishes it."""
    key: dict[str, Any] = ECAlgorithm.to_jwk(ec_key(key_id).public_key(), as_dict=True)
    return {**key, "kid": key_id, "use": "sig", "alg": "ES256", **members}


def rsa_jwk(key_id: str) -> dict[str, Any]:
    """The same, of the RSA key."""
    return {**RSAAlgorithm.to_jwk(rsa_key().public_key(), as_dict=True), "kid": key_id, "alg": "RS256"}


def key_set(*key_ids: str) -> str:
    """The key set of these keys."""
    return json.dumps({"keys": [public_jwk(key_id) for key_id in key_ids]})


def token(
    *,
    tenant: str = "acme",
    user: str = "ann",
    scope: str = "read read-content write",
    key_id: str = "one",
    lives: float = 300.0,
    without: tuple[str, ...] = (),
    headers: Mapping[str, Any] | None = None,
    **claims: Any,
) -> str:
    """A good token of an issuer, changed as told. lives: seconds from now."""
    now = time.time()
    said = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "iat": int(now),
        "exp": int(now + lives),
        "sub": user,
        "tenant": tenant,
        "scope": scope,
        **claims,
    }
    kept = {name: value for name, value in said.items() if name not in without}
    return jwt.encode(kept, ec_key(key_id), algorithm="ES256", headers={"kid": key_id, **(headers or {})})


def bearer(credentials: str, *more: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Metadata with credentials."""
    return (("authorization", f"Bearer {credentials}"), *more)


def identity_settings(folder: Path, *key_ids: str) -> dict[str, Any]:
    """Settings of a server that takes tokens signed by these keys."""
    keys = folder / "keys.json"
    keys.write_text(key_set(*(key_ids or ("one",))))
    return {"jwt_keys": str(keys), "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
