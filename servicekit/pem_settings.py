"""PEM files as settings: read and checked at the start, so that a wrong one is told of by its variable.

    tls_certificate_file: Annotated[Path | None, CERTIFICATE] = None
    tls_key_file: Annotated[Path | None, key_of("tls_certificate_file")] = Field(None, validate_default=True)

The field holds the path: what the file holds is neither kept nor printed.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import AfterValidator, ValidationInfo

from transport import pem


def _certificate(path: Path | None) -> Path | None:
    if path is not None:
        pem.certificate_chain(_read(path), now=datetime.now(UTC))
    return path


def _authorities(path: Path | None) -> Path | None:
    if path is not None:
        pem.authorities(_read(path), now=datetime.now(UTC))
    return path


CERTIFICATE: Final = AfterValidator(_certificate)
"""A certificate chain that is good now."""

AUTHORITIES: Final = AfterValidator(_authorities)
"""Certificates to trust."""


def key_of(certificate: str) -> AfterValidator:
    """The key of the certificate that another setting names: there when that is, and only then."""

    def check(path: Path | None, info: ValidationInfo) -> Path | None:
        beside: Path | None = info.data.get(certificate)
        if path is None:
            if beside is not None:
                raise ValueError(f"is required, since {certificate} is set")
            return None
        if beside is None and certificate in info.data:
            raise ValueError(f"is of no use without {certificate}")
        key = pem.private_key(_read(path))
        # A certificate that is wrong itself is not among the data.
        if beside is not None:
            pem.check_pair(pem.certificate_chain(_read(beside), now=datetime.now(UTC)), key)
        return path

    return AfterValidator(check)


def together_with(other: str) -> AfterValidator:
    """Nothing that makes sense without another setting."""

    def check(value: object, info: ValidationInfo) -> object:
        if value is not None and info.data.get(other, value) is None:
            raise ValueError(f"is of no use without {other}")
        return value

    return AfterValidator(check)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{str(path)!r} cannot be read: {error.strerror}") from None
