"""A throwaway authority for tests, and the files that it fills."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import trustme

NAMES = ("localhost", "127.0.0.1")


@dataclass(frozen=True, kw_only=True)
class Authority:
    """One certificate authority, and a folder for what it issues."""

    folder: Path
    ca: trustme.CA = field(default_factory=lambda: trustme.CA(key_type=trustme.KeyType.ECDSA))

    @property
    def file(self) -> Path:
        """Its own certificate."""
        path = self.folder / "ca.pem"
        path.write_bytes(self.pem)
        return path

    @property
    def pem(self) -> bytes:
        return self.ca.cert_pem.bytes()

    def issue(self, *names: str, expired: bool = False) -> trustme.LeafCert:
        """A certificate; for this machine, if no names are given."""
        until = datetime.now(UTC) - timedelta(days=1) if expired else None
        since = None if until is None else until - timedelta(days=1)
        return self.ca.issue_cert(*(names or NAMES), not_before=since, not_after=until)

    def pair(self, name: str, *names: str, expired: bool = False) -> tuple[Path, Path]:
        """Files of a fresh certificate and its key, written over those of the same name."""
        return self.write(name, self.issue(*names, expired=expired))

    def write(self, name: str, leaf: trustme.LeafCert) -> tuple[Path, Path]:
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certificate.write_bytes(chain_of(leaf))
        key.write_bytes(key_of(leaf))
        return certificate, key

    def server(self, name: str = "server", *names: str, expired: bool = False) -> dict[str, Any]:
        """Settings of a server with a fresh certificate."""
        certificate, key = self.pair(name, *names, expired=expired)
        return {"tls_certificate_file": certificate, "tls_key_file": key}

    def credentials(self, leaf: trustme.LeafCert | None = None) -> grpc.ChannelCredentials:
        """Of a client that trusts this authority, and shows a certificate if it has one."""
        if leaf is None:
            return grpc.ssl_channel_credentials(self.pem)
        return grpc.ssl_channel_credentials(self.pem, key_of(leaf), chain_of(leaf))


def chain_of(leaf: trustme.LeafCert) -> bytes:
    return b"".join(each.bytes() for each in leaf.cert_chain_pems)


def key_of(leaf: trustme.LeafCert) -> bytes:
    return leaf.private_key_pem.bytes()
