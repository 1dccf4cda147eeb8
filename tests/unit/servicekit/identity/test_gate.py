"""Who is let in, as whom, and what every other caller is told."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from budget.core import Budget
from servicekit.call import Arrival, Principal
from servicekit.errors import InvalidRequest
from servicekit.identity.api_key_text import new_api_key
from servicekit.identity.errors import (
    DelegationRefused,
    IdentityError,
    InvalidToken,
    MissingCredentials,
    ScopeMissing,
    ServicesOnly,
    UnknownService,
)
from servicekit.identity.gate import Gate
from servicekit.identity.scopes import Access, Scope, needs
from servicekit.identity.settings import IdentitySettings
from servicekit.settings import SettingsError
from tests.tokens import identity_settings, token

READ = needs(Scope.READ)
EDGE = {
    "name": "edge",
    "certificates": ["spiffe://hourglass/edge", "edge.hourglass"],
    "subjects": ["system:edge"],
    "scopes": ["read", "write"],
}
ANONYMOUS: Mapping[str, Any] = {}
STRANGER = {"x509_pem_cert": [b"..."], "peer_dns": [b"other.test"], "x509_common_name": [b"edge.hourglass"]}
EDGE_PEER = {"x509_pem_cert": [b"..."], "peer_uri": [b"spiffe://hourglass/edge"]}


def arrival(
    *metadata: tuple[str, str], peer: Mapping[str, Any] = ANONYMOUS, access: Access | None = READ
) -> Arrival:
    return Arrival("/test.v1.Test/Do", access, dict(metadata), lambda: peer)


def bearer(text: str) -> tuple[str, str]:
    return ("authorization", f"Bearer {text}")


async def gate_of(folder: Path, *, services_only: bool = False, **settings: Any) -> Gate:
    given = {**identity_settings(folder), "services": [EDGE], **settings}
    gate = IdentitySettings(**given).gate(services_only=services_only)
    assert gate is not None
    if gate._proofs.keys is not None:
        await gate._proofs.keys._read_once()
    return gate


@pytest.fixture
async def gate(tmp_path: Path) -> Gate:
    return await gate_of(tmp_path)


async def told(gate: Gate, arrived: Arrival) -> Principal:
    return await gate(arrived, Budget.for_work(1.0))


async def refused(gate: Gate, arrived: Arrival) -> IdentityError:
    with pytest.raises(IdentityError) as error:
        await told(gate, arrived)
    return error.value


async def test_a_token_is_taken_with_any_spelling_of_bearer(gate: Gate) -> None:
    for scheme in ("Bearer", "bearer", "BEARER"):
        found = await told(gate, arrival(("authorization", f"{scheme} {token()}")))
        assert ("acme", "ann") == (found.tenant, found.user)


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ((), MissingCredentials),
        ((("x-tenant-id", "acme"),), MissingCredentials),
        ((("authorization", "Basic YTpi"),), InvalidToken),
        ((("authorization", ""),), InvalidToken),
        ((("authorization", f"Bearer {'a' * 20},Bearer b"),), InvalidToken),
        ((("authorization", f"Bearer {new_api_key('acme').text}"),), InvalidToken),
    ],
)
async def test_without_good_credentials_nobody_comes_in(
    gate: Gate, metadata: tuple[tuple[str, str], ...], error: type[IdentityError]
) -> None:
    assert error is type(await refused(gate, arrival(*metadata)))


@pytest.mark.parametrize("header", ["x-tenant-id", "x-user-id", "x-scopes"])
async def test_nobody_but_a_service_speaks_for_others(gate: Gate, header: str) -> None:
    error = await refused(gate, arrival(bearer(token(scope="read write admin")), (header, "acme")))
    assert isinstance(error, DelegationRefused)
    assert {"header": header} == error.metadata


@pytest.mark.parametrize(
    "known_by",
    [
        {"peer": EDGE_PEER},
        {"peer": {"x509_pem_cert": [b""], "peer_dns": [b"other.test", b"edge.hourglass"]}},
        {"token": True},
    ],
)
async def test_a_service_speaks_for_whom_it_names(gate: Gate, known_by: dict[str, Any]) -> None:
    credentials = [bearer(token(user="system:edge", without=("tenant",)))] if "token" in known_by else []
    said = (("x-tenant-id", "zeta"), ("x-user-id", "eve"), ("x-scopes", "read, admin"))
    found = await told(gate, arrival(*credentials, *said, peer=known_by.get("peer", ANONYMOUS)))
    wanted = Principal(
        tenant="zeta", user="eve", scopes=frozenset({Scope.READ}), authenticated_by="service:edge"
    )
    assert wanted == found


async def test_a_service_has_its_own_scopes_and_name_where_it_names_none(gate: Gate) -> None:
    found = await told(gate, arrival(("x-tenant-id", "zeta"), peer=EDGE_PEER))
    assert "edge" == found.user
    assert {Scope.READ, Scope.WRITE} == found.scopes


async def test_a_service_that_names_no_tenant_is_told_where_one_is_needed(gate: Gate) -> None:
    with pytest.raises(InvalidRequest) as wrong:
        await told(gate, arrival(peer=EDGE_PEER))
    assert ["x-tenant-id"] == [violation.field for violation in wrong.value.violations]
    free = await told(gate, arrival(peer=EDGE_PEER, access=needs(Scope.READ, of_tenant=False)))
    assert ("", "edge") == (free.tenant, free.user)


async def test_a_services_malformed_metadata_is_named(gate: Gate) -> None:
    with pytest.raises(InvalidRequest) as wrong:
        await told(gate, arrival(("x-tenant-id", "A,B"), ("x-user-id", ""), peer=EDGE_PEER))
    assert ["x-tenant-id", "x-user-id"] == [violation.field for violation in wrong.value.violations]


async def test_a_certificate_of_nobody_known_is_no_service_whatever_its_common_name(gate: Gate) -> None:
    assert isinstance(await refused(gate, arrival(("x-tenant-id", "acme"), peer=STRANGER)), UnknownService)


async def test_a_token_decides_also_beside_a_services_certificate(gate: Gate) -> None:
    found = await told(gate, arrival(bearer(token()), peer=EDGE_PEER))
    assert "token" == found.authenticated_by
    error = await refused(gate, arrival(bearer(token()), ("x-tenant-id", "zeta"), peer=EDGE_PEER))
    assert isinstance(error, DelegationRefused)


async def test_a_server_for_services_answers_nobody_else(tmp_path: Path) -> None:
    gate = await gate_of(tmp_path, services_only=True)
    everything = token(scope="read read-content write admin")
    assert isinstance(await refused(gate, arrival(bearer(everything))), ServicesOnly)
    assert "edge" == (await told(gate, arrival(("x-tenant-id", "zeta"), peer=EDGE_PEER))).user


@pytest.mark.parametrize(
    ("access", "scope", "missing"),
    [
        (needs(Scope.WRITE), "read", "write"),
        (needs(Scope.WRITE, Scope.READ_CONTENT), "write", "read-content"),
        (needs(Scope.ADMIN), "read read-content write", "admin"),
        (needs(Scope.READ), "read-content write admin", "read"),
        (None, "read read-content write", "admin"),
        (needs(Scope.READ), "", "read"),
    ],
)
async def test_a_method_is_closed_to_whoever_lacks_a_scope_of_it(
    gate: Gate, access: Access | None, scope: str, missing: str
) -> None:
    error = await refused(gate, arrival(bearer(token(scope=scope)), access=access))
    assert isinstance(error, ScopeMissing)
    assert {"scopes": missing} == error.metadata


async def test_a_storm_of_bad_tokens_is_counted_by_what_was_wrong(gate: Gate) -> None:
    for _ in range(30):
        await refused(gate, arrival(bearer("garbage")))
    await refused(gate, arrival())
    await told(gate, arrival(bearer(token())))
    assert {
        ("token", "INVALID_TOKEN"): 30,
        ("certificate", "MISSING_CREDENTIALS"): 1,
        ("token", "ok"): 1,
    } == gate.decisions


def test_without_settings_there_is_no_gate() -> None:
    assert IdentitySettings().gate() is None
    assert not IdentitySettings().authenticated


@pytest.mark.parametrize(
    ("environment", "variables"),
    [
        ({"JWT_KEYS": "/keys.json"}, {"JWT_ISSUER", "JWT_AUDIENCE"}),
        ({"JWT_KEYS": "http://issuer.test/keys"}, {"JWT_KEYS"}),
        ({"JWT_KEYS": "https://user:secret@issuer.test/keys"}, {"JWT_KEYS"}),
        ({"JWT_ALGORITHMS": "HS256"}, {"JWT_ALGORITHMS"}),
        ({"JWT_ALGORITHMS": "none"}, {"JWT_ALGORITHMS"}),
        ({"JWT_ALGORITHMS": ","}, {"JWT_ALGORITHMS"}),
        ({"SERVICES": json.dumps([{**EDGE, "certificates": []}])}, {"SERVICES.0.subjects"}),
        ({"SERVICES": json.dumps([{**EDGE, "certificates": [], "subjects": []}])}, {"SERVICES.0"}),
        ({"SERVICES": json.dumps([{**EDGE, "subjects": []}] * 2)}, {"SERVICES"}),
        ({"SERVICES": json.dumps([{**EDGE, "scopes": ["root"]}])}, {"SERVICES.0.scopes.0"}),
    ],
)
def test_settings_that_would_let_in_too_many_stop_the_start(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], variables: set[str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as error:
        IdentitySettings.load()
    assert variables == {name.upper() if "." not in name else name for name in error.value.problems}


def test_a_server_for_services_wants_to_be_told_of_some(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="SERVICES: is required"):
        IdentitySettings(**identity_settings(tmp_path)).gate(services_only=True)
