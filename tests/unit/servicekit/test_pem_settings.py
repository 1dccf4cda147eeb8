"""Settings that name certificate files are checked at the start, each by its own variable."""

from pathlib import Path

import pytest
from pydantic_settings import SettingsConfigDict

from servicekit.listen import is_loopback, refuse_open_bind
from servicekit.peer_settings import PeerSettings
from servicekit.settings import ServerSettings, SettingsError
from tests.certificates import Authority


class Example(ServerSettings, PeerSettings):
    model_config = SettingsConfigDict(env_prefix="EXAMPLE_")


def problems(monkeypatch: pytest.MonkeyPatch, **variables: object) -> dict[str, str]:
    for name, value in variables.items():
        monkeypatch.setenv(f"EXAMPLE_{name}", str(value))
    with pytest.raises(SettingsError) as error:
        Example.load()
    return {name.removeprefix("EXAMPLE_"): text for name, text in error.value.problems.items()}


def test_every_wrong_file_is_told_of_at_once_by_its_variable(
    monkeypatch: pytest.MonkeyPatch, authority: Authority, other: Authority, tmp_path: Path
) -> None:
    found = problems(
        monkeypatch,
        TLS_CERTIFICATE_FILE=authority.pair("server")[0],
        TLS_KEY_FILE=other.pair("server")[1],
        TLS_CLIENT_CA_FILE=tmp_path / "missing.pem",
        PEER_CA_FILE=tmp_path,
    )

    assert {"TLS_KEY_FILE", "TLS_CLIENT_CA_FILE", "PEER_CA_FILE"} == found.keys()
    assert "is not the key of the certificate" in found["TLS_KEY_FILE"]
    assert "missing.pem' cannot be read: No such file" in found["TLS_CLIENT_CA_FILE"]


@pytest.mark.parametrize(
    ("variable", "lacks"),
    [
        ("TLS_CLIENT_CA_FILE", "tls_certificate_file"),
        ("PEER_CERTIFICATE_FILE", "peer_ca_file"),
    ],
)
def test_a_setting_says_which_other_one_it_needs(
    monkeypatch: pytest.MonkeyPatch, variable: str, lacks: str, authority: Authority
) -> None:
    found = problems(monkeypatch, **{variable: authority.pair("server")[0]})

    assert f"is of no use without {lacks}" in found[variable]


def test_a_second_address_takes_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    found = problems(monkeypatch, MTLS_LISTEN="127.0.0.1:0")

    assert "is of no use without tls_client_ca_file" in found["MTLS_LISTEN"]


def test_a_certificate_takes_a_key_and_a_key_a_certificate(
    monkeypatch: pytest.MonkeyPatch, authority: Authority
) -> None:
    certificate, key = authority.pair("server")

    assert {"TLS_KEY_FILE"} == problems(monkeypatch, TLS_CERTIFICATE_FILE=certificate).keys()
    monkeypatch.delenv("EXAMPLE_TLS_CERTIFICATE_FILE")
    assert {"TLS_KEY_FILE"} == problems(monkeypatch, TLS_KEY_FILE=key).keys()


def test_an_expired_certificate_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, authority: Authority
) -> None:
    certificate, key = authority.pair("server", expired=True)
    found = problems(monkeypatch, TLS_CERTIFICATE_FILE=certificate, TLS_KEY_FILE=key)

    assert {"TLS_CERTIFICATE_FILE"} == found.keys()
    assert "has expired" in found["TLS_CERTIFICATE_FILE"]


def test_a_key_is_never_printed(authority: Authority) -> None:
    settings = ServerSettings(**authority.server())
    assert settings.tls_key_file is not None
    secret = settings.tls_key_file.read_text().splitlines()[1]

    assert secret not in f"{settings!r} {dict(settings.redacted())}"


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1:0", True),
        ("127.1.2.3:0", True),
        ("[::1]:0", True),
        ("localhost:0", True),
        ("unix:/run/jobs.sock", True),
        ("0.0.0.0:0", False),
        ("[::]:0", False),
        ("10.0.0.7:50051", False),
        ("jobs.internal:50051", False),
    ],
)
def test_only_loopback_is_open_to_everybody(address: str, loopback: bool) -> None:
    refused = [
        refuse_open_bind(address, authenticated=who, encrypted=tls, insecure=False)
        for who, tls in ((False, False), (True, False), (False, True))
    ]

    assert loopback is is_loopback(address)
    assert [loopback] * 3 == [problem is None for problem in refused]
    assert refuse_open_bind(address, authenticated=True, encrypted=True, insecure=False) is None
    assert refuse_open_bind(address, authenticated=False, encrypted=False, insecure=True) is None


def test_an_address_in_the_open_stops_the_start_and_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, authority: Authority
) -> None:
    server = {f"{name.upper()}": path for name, path in authority.server().items()}
    found = problems(monkeypatch, LISTEN="0.0.0.0:50051", **server)

    assert {"LISTEN": "others can reach it, so it takes authentication, or --insecure"} == found
    monkeypatch.setenv("EXAMPLE_INSECURE", "true")
    assert Example.load().insecure
