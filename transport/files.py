"""The PEM files of one end of a connection, read and checked together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from cryptography import x509

from transport import pem
from transport.pem import WrongPem

Found = TypeVar("Found")


class Part(StrEnum):
    """What a file is for."""

    CERTIFICATE = "certificate"
    """This end's certificate, and the chain above it."""
    KEY = "key"
    """The key of that certificate."""
    AUTHORITIES = "authorities"
    """Whose certificates the other end may have."""


class WrongFiles(Exception):
    """Files cannot be used together; `problems` says of each what is wrong."""

    reason = "WRONG_TLS_FILES"

    def __init__(self, problems: Mapping[Part, str]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{part}: {problem}" for part, problem in problems.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Where the files lie. A certificate and a key come together, or not at all."""

    certificate: Path | None = None
    key: Path | None = None
    authorities: Path | None = None

    def __post_init__(self) -> None:
        """ValueError for one without the other."""
        if (self.certificate is None) != (self.key is None):
            raise ValueError("a certificate and a key come together")

    @property
    def by_part(self) -> Mapping[Part, Path]:
        """Those that there are."""
        named = zip(Part, (self.certificate, self.key, self.authorities), strict=True)
        return {part: path for part, path in named if path is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What the files held at one time. expiries: when each certificate file stops being good."""

    pems: Mapping[Part, bytes] = field(repr=False)
    expiries: Mapping[Part, datetime]

    @property
    def pair(self) -> tuple[bytes, bytes] | None:
        """Key and certificate chain, as grpc takes them."""
        if Part.CERTIFICATE not in self.pems:
            return None
        return self.pems[Part.KEY], self.pems[Part.CERTIFICATE]

    @property
    def authorities(self) -> bytes | None:
        """Whom to trust; None: as grpc does by itself."""
        return self.pems.get(Part.AUTHORITIES)


def read(files: TlsFiles) -> Mapping[Part, bytes]:
    """The bytes of every file. Raises WrongFiles for what cannot be read."""
    found: dict[Part, bytes] = {}
    problems: dict[Part, str] = {}
    for part, path in files.by_part.items():
        try:
            found[part] = path.read_bytes()
        except OSError as error:
            problems[part] = f"{str(path)!r} cannot be read: {error.strerror}"
    if problems:
        raise WrongFiles(problems)
    return found


def check(pems: Mapping[Part, bytes], *, now: datetime) -> Contents:
    """What was read, if it is good. Raises WrongFiles with every problem."""
    problems: dict[Part, str] = {}
    chain = _tried(Part.CERTIFICATE, lambda raw: pem.certificate_chain(raw, now=now), pems, problems)
    key = _tried(Part.KEY, pem.private_key, pems, problems)
    trusted = _tried(Part.AUTHORITIES, lambda raw: pem.authorities(raw, now=now), pems, problems)
    if chain is not None and key is not None:
        try:
            pem.check_pair(chain, key)
        except WrongPem as error:
            problems[Part.KEY] = str(error)
    if problems:
        raise WrongFiles(problems)
    return Contents(pems=pems, expiries=_expiries(chain, trusted))


def _tried(
    part: Part, parse: Callable[[bytes], Found], pems: Mapping[Part, bytes], problems: dict[Part, str]
) -> Found | None:
    if part not in pems:
        return None
    try:
        return parse(pems[part])
    except WrongPem as error:
        problems[part] = str(error)
        return None


def _expiries(
    chain: Sequence[x509.Certificate] | None, trusted: Sequence[x509.Certificate] | None
) -> Mapping[Part, datetime]:
    """A chain is as good as its first to end; of authorities the last one counts."""
    found = {}
    if chain:
        found[Part.CERTIFICATE] = min(each.not_valid_after_utc for each in chain)
    if trusted:
        found[Part.AUTHORITIES] = max(each.not_valid_after_utc for each in trusted)
    return found
