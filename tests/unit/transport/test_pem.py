"""Files that cannot be used are refused with what is wrong, and nothing that they hold is in the text."""

import warnings
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from cryptography.x509.oid import NameOID
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import integers, lists, sampled_from, tuples

from tests.certificates import Authority, chain_of, key_of
from transport.files import Part, WrongFiles, check
from transport.pem import WrongPem, authorities, certificate_chain, private_key

NOW = datetime.now(UTC)
DAY = timedelta(days=1)


def encrypted_key() -> bytes:
    encryption = BestAvailableEncryption(b"hunter2")
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, encryption
    )


def test_a_chain_goes_from_the_certificate_up(authority: Authority) -> None:
    leaf = authority.ca.create_child_ca(key_type=trustme.KeyType.ECDSA).issue_cert("a.example")
    upwards = [each.bytes() for each in leaf.cert_chain_pems]
    assert len(upwards) == 2

    assert 2 == len(certificate_chain(b"".join(upwards), now=NOW))
    with pytest.raises(WrongPem, match="is out of order"):
        certificate_chain(b"".join(reversed(upwards)), now=NOW)


@pytest.mark.parametrize(
    ("days", "problem"),
    [(800_000, "has expired: .* was good until"), (-400_000, "is not valid yet: .* begins")],
)
def test_a_certificate_has_its_time(days: int, problem: str, authority: Authority) -> None:
    chain = chain_of(authority.issue())

    assert certificate_chain(chain, now=NOW)
    with pytest.raises(WrongPem, match=problem):
        certificate_chain(chain, now=NOW + timedelta(days=days))


@pytest.mark.parametrize("parse", [lambda raw: certificate_chain(raw, now=NOW), private_key])
@pytest.mark.parametrize("cut", [0, 60, 200])
def test_a_file_that_is_cut_off_is_refused(
    parse: Callable[[bytes], object], cut: int, authority: Authority
) -> None:
    leaf = authority.issue()
    whole = key_of(leaf) if parse is private_key else leaf.cert_chain_pems[0].bytes()

    assert parse(whole)
    with pytest.raises(WrongPem, match=r"^holds no "):
        parse(whole[:cut])


def test_an_encrypted_key_is_refused_in_words() -> None:
    with pytest.raises(WrongPem, match="holds an encrypted key"):
        private_key(encrypted_key())


def test_old_authorities_may_stay_beside_new_ones(authority: Authority, other: Authority) -> None:
    both = authority.pem + other.pem

    assert 2 == len(authorities(both, now=NOW))
    with pytest.raises(WrongPem, match="holds only expired certificates"):
        authorities(both, now=NOW + timedelta(days=800_000))


def test_every_file_that_is_wrong_is_told_of(authority: Authority, other: Authority) -> None:
    pems = {
        Part.CERTIFICATE: chain_of(authority.issue()),
        Part.KEY: key_of(other.issue()),
        Part.AUTHORITIES: b"nothing",
    }

    with pytest.raises(WrongFiles) as wrong:
        check(pems, now=NOW)

    assert {Part.KEY, Part.AUTHORITIES} == wrong.value.problems.keys()
    assert "is not the key of the certificate" in wrong.value.problems[Part.KEY]


def test_what_files_hold_is_never_in_a_text(authority: Authority) -> None:
    leaf = authority.issue()
    key = key_of(leaf)
    contents = check({Part.CERTIFICATE: chain_of(leaf), Part.KEY: key}, now=NOW)

    secret = key.splitlines()[1].decode()
    assert secret not in repr(contents)
    with pytest.raises(WrongPem) as wrong:
        private_key(key[:-40])
    told = [str(wrong.value), str(wrong.value.__cause__), repr(wrong.value)]
    assert not [text for text in told if secret in text]


@pytest.mark.parametrize("curve", [ec.SECP521R1(), ec.SECP256K1()])
def test_a_key_that_no_handshake_could_use_is_refused(curve: ec.EllipticCurve, authority: Authority) -> None:
    key = ec.generate_private_key(curve)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jobs.example")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 7, NOW - DAY, NOW + DAY)
        .sign(key, SHA256())
        .public_bytes(Encoding.PEM)
    )

    with pytest.raises(WrongPem, match=r"has a key that gRPC cannot use: CN=jobs\.example"):
        certificate_chain(certificate, now=NOW)


@settings(max_examples=200, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    part=sampled_from(Part),
    changes=lists(tuples(integers(0, 2000), integers(0, 255)), min_size=1, max_size=4),
)
def test_whatever_a_file_holds_it_is_good_or_refused(
    part: Part, changes: list[tuple[int, int]], whole: dict[Part, bytes]
) -> None:
    body = bytearray(b64decode(b"".join(whole[part].splitlines()[1:-1])))
    for place, value in changes:
        body[place % len(body)] = value
    first, *_, last = whole[part].splitlines()
    pems = {**whole, part: b"\n".join([first, b64encode(body), last])}

    with warnings.catch_warnings(action="ignore"), suppress(WrongFiles):
        assert check(pems, now=NOW).expiries


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[Part, bytes]:
    """Good files."""
    authority = Authority(folder=tmp_path_factory.mktemp("authority"))
    leaf = authority.issue()
    return {Part.CERTIFICATE: chain_of(leaf), Part.KEY: key_of(leaf), Part.AUTHORITIES: authority.pem}
