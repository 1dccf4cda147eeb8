"""What PEM files have to hold. Pure: bytes in, problems out; no text here quotes what a file holds."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

_CURVES: Final = frozenset({"secp256r1", "secp384r1"})
_TIME: Final = "%Y-%m-%d %H:%M:%S UTC"


class WrongPem(ValueError):
    """A file does not hold what it has to; the text says why, without what it holds."""


def certificate_chain(pem: bytes, *, now: datetime) -> Sequence[x509.Certificate]:
    """A certificate and what was issued above it, in this order (RFC 8446, 4.4.2). Raises WrongPem."""
    chain = _certificates(pem)
    _check_dates(chain[0], now=now)
    _check_kind(chain[0])
    for below, above in pairwise(chain):
        if not _issued(below, by=above):
            raise WrongPem(
                f"is out of order: {_name(below)} was not issued by {_name(above)}, which follows it"
            )
    return chain


def private_key(pem: bytes) -> PrivateKeyTypes:
    """A key that is not encrypted. Raises WrongPem."""
    with _parsing("holds no private key in PEM"):
        try:
            return load_pem_private_key(pem, password=None)
        except TypeError:
            raise WrongPem("holds an encrypted key; one that is not is wanted") from None


def check_pair(chain: Sequence[x509.Certificate], key: PrivateKeyTypes) -> None:
    """WrongPem when the key is not that of the first certificate."""
    encoding = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    with _parsing("cannot be compared with the certificate"):
        wanted, found = (one.public_key().public_bytes(*encoding) for one in (chain[0], key))
    if wanted != found:
        raise WrongPem(f"is not the key of the certificate {_name(chain[0])}")


def authorities(pem: bytes, *, now: datetime) -> Sequence[x509.Certificate]:
    """Certificates to trust; one that is valid is enough, for old ones stay beside new. Raises WrongPem."""
    found = _certificates(pem)
    if all(each.not_valid_after_utc <= now for each in found):
        raise WrongPem(f"holds only expired certificates; the last was good until {_until(found)}")
    return found


def _certificates(pem: bytes) -> Sequence[x509.Certificate]:
    with _parsing("holds no certificates in PEM, or broken ones"):
        return x509.load_pem_x509_certificates(pem)


@contextmanager
def _parsing(problem: str) -> Iterator[None]:
    """Whatever a parser raises of what it was given, which is a lot, is one problem. Its own text is dropped:
    it may quote the file."""
    try:
        yield
    except WrongPem:
        raise
    except Exception:  # noqa: BLE001 - a file that somebody wrote must end no process
        raise WrongPem(problem) from None


def _check_kind(certificate: x509.Certificate) -> None:
    """gRPC would take the others, and fail in every handshake."""
    with _parsing("holds a certificate with a broken key"):
        key = certificate.public_key()
    curve = key.curve.name if isinstance(key, ec.EllipticCurvePublicKey) else ""
    if not isinstance(key, rsa.RSAPublicKey) and curve not in _CURVES:
        raise WrongPem(f"has a key that gRPC cannot use: {_name(certificate)}; wanted RSA, P-256 or P-384")


def _check_dates(certificate: x509.Certificate, *, now: datetime) -> None:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if end <= now:
        raise WrongPem(f"has expired: {_name(certificate)} was good until {end.strftime(_TIME)}")
    if begin > now:
        raise WrongPem(f"is not valid yet: {_name(certificate)} begins at {begin.strftime(_TIME)}")


def _issued(below: x509.Certificate, *, by: x509.Certificate) -> bool:
    try:
        below.verify_directly_issued_by(by)
    except Exception:  # noqa: BLE001 - as above: whatever it is, it does not fit
        return False
    return True


def _until(certificates: Sequence[x509.Certificate]) -> str:
    return max(each.not_valid_after_utc for each in certificates).strftime(_TIME)


def _name(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string() or f"with serial number {certificate.serial_number:x}"
