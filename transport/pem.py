"""What PEM files have to hold. Pure: bytes in, problems out; no text here quotes what a file holds."""

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

_TIME: Final = "%Y-%m-%d %H:%M:%S UTC"


class WrongPem(ValueError):
    """A file does not hold what it has to; the text says why, without what it holds."""


def certificate_chain(pem: bytes, *, now: datetime) -> Sequence[x509.Certificate]:
    """A certificate and what was issued above it, in this order (RFC 8446, 4.4.2). Raises WrongPem."""
    chain = _certificates(pem)
    _check_dates(chain[0], now=now)
    for below, above in pairwise(chain):
        if not _issued(below, by=above):
            raise WrongPem(
                f"is out of order: {_name(below)} was not issued by {_name(above)}, which follows it"
            )
    return chain


def private_key(pem: bytes) -> PrivateKeyTypes:
    """A key that is not encrypted. Raises WrongPem."""
    try:
        return load_pem_private_key(pem, password=None)
    except TypeError:
        raise WrongPem("holds an encrypted key; one that is not is wanted") from None
    except (ValueError, UnsupportedAlgorithm):
        # The parser's own text is dropped: it may quote the file.
        raise WrongPem("holds no private key in PEM") from None


def check_pair(chain: Sequence[x509.Certificate], key: PrivateKeyTypes) -> None:
    """WrongPem when the key is not that of the first certificate."""
    wanted, found = chain[0].public_key(), key.public_key()
    encoding = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if wanted.public_bytes(*encoding) != found.public_bytes(*encoding):
        raise WrongPem(f"is not the key of the certificate {_name(chain[0])}")


def authorities(pem: bytes, *, now: datetime) -> Sequence[x509.Certificate]:
    """Certificates to trust; one that is valid is enough, for old ones stay beside new. Raises WrongPem."""
    found = _certificates(pem)
    if all(each.not_valid_after_utc <= now for each in found):
        raise WrongPem(f"holds only expired certificates; the last was good until {_until(found)}")
    return found


def _certificates(pem: bytes) -> Sequence[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise WrongPem("holds no certificates in PEM, or broken ones") from None


def _check_dates(certificate: x509.Certificate, *, now: datetime) -> None:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if end <= now:
        raise WrongPem(f"has expired: {_name(certificate)} was good until {end.strftime(_TIME)}")
    if begin > now:
        raise WrongPem(f"is not valid yet: {_name(certificate)} begins at {begin.strftime(_TIME)}")


def _issued(below: x509.Certificate, *, by: x509.Certificate) -> bool:
    try:
        below.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _until(certificates: Sequence[x509.Certificate]) -> str:
    return max(each.not_valid_after_utc for each in certificates).strftime(_TIME)


def _name(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string() or f"with serial number {certificate.serial_number:x}"
