"""A token is taken when its issuer signed it for us, and for as long as it says: never for another reason."""

import base64
import hmac
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from budget.core import Budget
from servicekit.call import Principal
from servicekit.identity.errors import IdentityError, InvalidToken, TokenExpired
from servicekit.identity.key_sets import KeySet, MalformedKeySet
from servicekit.identity.scopes import Scope
from servicekit.identity.services import Service, ServiceRule, Services
from servicekit.identity.signing_keys import KeyPace, SigningKeys
from servicekit.identity.tokens import ALGORITHMS, TokenRules, Tokens
from tests.tokens import AUDIENCE, ISSUER, ec_key, key_set, public_jwk, rsa_jwk, rsa_key, token

RULES = TokenRules(issuer=ISSUER, audience=AUDIENCE, algorithms=frozenset({"ES256", "RS256"}))
NO_SERVICES = Services(())


class Wall:
    """A wall clock that a test moves."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


async def keys_of(text: str) -> SigningKeys:
    """Keys that were read a moment ago, so that nobody asks for them again."""

    async def read(_budget: Budget) -> str:
        return text

    keys = SigningKeys(read, algorithms=RULES.algorithms, pace=KeyPace())
    await keys._read_once()
    return keys


async def tokens_of(
    text: str = "", *, services: Services = NO_SERVICES, rules: TokenRules = RULES, **options: Any
) -> Tokens:
    return Tokens(await keys_of(text or key_set("one", "two")), rules, services, **options)


async def refusal(tokens: Tokens, text: str) -> IdentityError:
    with pytest.raises(IdentityError) as refused:
        await tokens.caller(text, Budget.for_work(1.0))
    assert not text or text not in str(refused.value)
    return refused.value


async def principal(tokens: Tokens, text: str) -> Principal:
    caller = await tokens.caller(text, Budget.for_work(1.0))
    assert isinstance(caller, Principal)
    return caller


async def test_a_good_token_says_tenant_user_and_scopes() -> None:
    found = await principal(await tokens_of(), token())
    wanted = {Scope.READ, Scope.READ_CONTENT, Scope.WRITE}
    assert Principal(tenant="acme", user="ann", scopes=frozenset(wanted), authenticated_by="token") == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (lambda: token(iss="https://other.test"), "it is from another issuer"),
        (lambda: token(aud="other"), "it is meant for another audience"),
        (lambda: token(nbf=int(time.time()) + 600), "it is not valid yet"),
        (lambda: token(without=("exp",)), "it has no claim exp"),
        (lambda: token(without=("iss",)), "it has no claim iss"),
        (lambda: token(without=("aud",)), "it has no claim aud"),
        (lambda: token(without=("tenant",)), "it has no claim tenant"),
        (lambda: token(without=("sub",)), "it has no claim sub"),
        (lambda: token(tenant="Not A Tenant"), "its claim tenant names no tenant"),
        (lambda: token(tenant="a,b"), "its claim tenant names no tenant"),
        (lambda: token(user="two words"), "its claim sub names no user"),
        (lambda: token(key_id="three"), "its signing key is not known"),
        (lambda: token(headers={"kid": "two"}), "its signature is wrong"),
        (lambda: token()[:-4] + "AAAA", "its signature is wrong"),
        (lambda: token() + "x" * 9000, "it is longer than 8192 characters"),
        (lambda: "", "it is malformed"),
        (lambda: "a.b.c", "it is malformed"),
        (lambda: header_of(b"[" * 5000) + ".e30.AA", "it is malformed"),
        (lambda: unsigned({"alg": "ES256"}), "it names no signing key"),
        (lambda: token(exp=float("inf")), "it is malformed"),
    ],
)
async def test_a_token_that_is_not_good_is_refused_with_what_is_wrong_with_it(text: Any, why: str) -> None:
    error = await refusal(await tokens_of(), text())
    assert ("INVALID_TOKEN", {"why": why}) == (error.reason, getattr(error, "metadata", {}))


async def test_a_token_without_a_signature_is_never_taken() -> None:
    assert isinstance(await refusal(await tokens_of(), unsigned({"alg": "none", "kid": "one"})), InvalidToken)
    assert "none" not in ALGORITHMS


async def test_a_public_key_never_serves_as_a_shared_secret() -> None:
    pem = (
        rsa_key()
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    tokens = await tokens_of(json.dumps({"keys": [rsa_jwk("rsa")]}))
    for secret in (pem, pem.strip(), json.dumps(rsa_jwk("rsa")).encode()):
        error = await refusal(tokens, signed_by_secret(secret, {"alg": "HS256", "kid": "rsa"}))
        assert "its algorithm is not allowed" in str(error)
    assert not [name for name in ALGORITHMS if name.startswith("HS")]


async def test_a_secret_in_the_key_set_is_no_signing_key() -> None:
    secret = {"kty": "oct", "kid": "shared", "k": base64.urlsafe_b64encode(b"s" * 32).decode()}
    text = json.dumps({"keys": [secret, public_jwk("one")]})
    assert 1 == len(KeySet.of(text, ["HS256", "ES256"]))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"keys": {}}',
        '{"keys": []}',
        "[" * 5000,
        '{"keys": [{"kty": "EC"}, 1, null]}',
        json.dumps({"keys": [public_jwk("one", use="enc")]}),
        json.dumps({"keys": [{"kid": 1}]}),
    ],
)
def test_a_text_without_a_key_that_signs_is_no_key_set(text: str) -> None:
    with pytest.raises(MalformedKeySet):
        KeySet.of(text, ALGORITHMS)


async def test_a_key_signs_by_its_own_algorithm_only() -> None:
    tokens = await tokens_of(json.dumps({"keys": [rsa_jwk("rsa")]}))
    claims = {"iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 60, "sub": "ann", "tenant": "acme"}
    good = jwt.encode(claims, rsa_key(), algorithm="RS256", headers={"kid": "rsa"})
    other = jwt.encode(claims, rsa_key(), algorithm="PS256", headers={"kid": "rsa"})
    assert "acme" == (await principal(tokens, good)).tenant
    assert "its algorithm is not allowed" in str(await refusal(tokens, other))


async def test_only_allowed_algorithms_are_taken() -> None:
    rules = TokenRules(issuer=ISSUER, audience=AUDIENCE, algorithms=frozenset({"RS256"}))
    assert "its algorithm is not allowed" in str(await refusal(await tokens_of(rules=rules), token()))


async def test_a_short_key_is_refused() -> None:
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    jwk = {
        **jwt.algorithms.RSAAlgorithm.to_jwk(weak.public_key(), as_dict=True),
        "kid": "weak",
        "alg": "RS256",
    }
    tokens = await tokens_of(json.dumps({"keys": [jwk]}))
    claims = {"iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 60, "sub": "ann", "tenant": "acme"}
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        text = jwt.encode(claims, weak, algorithm="RS256", headers={"kid": "weak"})
    assert "its signing key is too short" in str(await refusal(tokens, text))


async def test_an_expired_token_is_told_so_and_the_leeway_is_granted() -> None:
    tokens = await tokens_of()
    assert isinstance(await refusal(tokens, token(lives=-6.0)), TokenExpired)
    assert "acme" == (await principal(tokens, token(lives=-3.0))).tenant


async def test_a_remembered_token_ends_when_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    wall = Wall()
    tokens, text = await tokens_of(wall=wall), token(lives=60.0)
    await principal(tokens, text)

    def expired(*_: Any, **__: Any) -> None:
        raise jwt.ExpiredSignatureError

    monkeypatch.setattr(jwt, "decode", expired)
    wall.now += 60.0  # within the leeway
    await principal(tokens, text)
    wall.now += 6.0
    assert isinstance(await refusal(tokens, text), TokenExpired)


async def test_a_token_that_was_verified_is_not_verified_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, text = await tokens_of(), token()
    first = await principal(tokens, text)
    monkeypatch.setattr(jwt, "decode", None)
    assert first is await principal(tokens, text)


async def test_a_key_that_the_issuer_dropped_is_good_for_no_remembered_token() -> None:
    tokens, text = await tokens_of(), token()
    await principal(tokens, text)
    tokens._keys.current = KeySet.of(key_set("two"), RULES.algorithms)
    assert "its signing key is not known" in str(await refusal(tokens, text))


async def test_only_so_many_tokens_are_remembered_and_none_as_text() -> None:
    tokens = await tokens_of(capacity=3)
    for number in range(10):
        await principal(tokens, token(user=f"user-{number}"))
    assert 3 == len(tokens._verified)
    assert all(len(key) == 32 for key in tokens._verified)


@pytest.mark.parametrize(
    ("claim", "scopes"),
    [
        ({"scope": "read admin openid"}, {Scope.READ, Scope.ADMIN}),
        ({"scope": ["read", "write", 7]}, {Scope.READ, Scope.WRITE}),
        ({"scope": "READ"}, set()),
        ({"scope": {"read": True}}, set()),
        ({"scope": None}, set()),
    ],
)
async def test_scopes_are_a_text_or_a_list_and_those_of_others_are_left_out(
    claim: dict[str, Any], scopes: set[Scope]
) -> None:
    assert scopes == (await principal(await tokens_of(), token(**claim))).scopes


async def test_names_of_claims_and_the_prefix_of_scopes_are_settings() -> None:
    rules = TokenRules(
        issuer=ISSUER,
        audience=AUDIENCE,
        algorithms=frozenset({"ES256"}),
        tenant_claim="org",
        user_claim="email",
        scope_claim="scp",
        scope_prefix="hourglass:",
    )
    tokens = await tokens_of(rules=rules)
    found = await principal(
        tokens, token(org="umbrella", email="eve@umbrella.test", scp=["hourglass:read", "write"])
    )
    assert ("umbrella", "eve@umbrella.test") == (found.tenant, found.user)
    assert {Scope.READ} == found.scopes


async def test_a_subject_of_the_configuration_is_a_service() -> None:
    rule = ServiceRule(name="edge", subjects=("system:edge",), scopes=frozenset({Scope.READ}))
    tokens = await tokens_of(services=Services([rule]))
    found = await tokens.caller(token(user="system:edge", without=("tenant",)), Budget.for_work(1.0))
    assert Service(name="edge", scopes=frozenset({Scope.READ})) == found


def header_of(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def unsigned(header: dict[str, Any]) -> str:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 60, "sub": "ann", "tenant": "acme"}
    return ".".join((header_of(json.dumps(header).encode()), header_of(json.dumps(claims).encode()), ""))


def signed_by_secret(secret: bytes, header: dict[str, Any]) -> str:
    """By hand: PyJWT refuses to make such a token."""
    body = unsigned(header).rstrip(".")
    return f"{body}.{header_of(hmac.digest(secret, body.encode(), 'sha256'))}"


def test_the_helpers_sign_what_they_say() -> None:
    claims = jwt.decode(token(), ec_key("one").public_key(), algorithms=["ES256"], audience=AUDIENCE)
    assert ("acme", ISSUER) == (claims["tenant"], claims["iss"])
