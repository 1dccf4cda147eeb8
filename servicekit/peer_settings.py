"""How a process calls other processes of ours, as settings."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator

from servicekit.pem_settings import AUTHORITIES, CERTIFICATE, key_of, together_with
from servicekit.settings import ProcessSettings
from transport.bearer import TokenFile, WrongToken
from transport.files import TlsFiles


class PeerSettings(ProcessSettings):
    """The TLS of channels to other processes of ours. The files are in PEM, and read again when they change.

    peer_ca_file: the authorities of the others' certificates. With it they are called over TLS alone; the
        host of a target, and of a worker's advertised_address, has to be a name in the certificate there.
    peer_certificate_file: the certificate chain shown to those who demand one (mTLS); it may be the server's
        own. peer_key_file: the key of that certificate, not encrypted.
    peer_token_file: the token that others know this process by, where they do not know its certificate.
    """

    peer_ca_file: Annotated[Path | None, AUTHORITIES] = None
    peer_certificate_file: Annotated[Path | None, CERTIFICATE, together_with("peer_ca_file")] = None
    peer_key_file: Annotated[Path | None, key_of("peer_certificate_file")] = Field(
        default=None, validate_default=True
    )

    peer_token_file: Path | None = None

    @field_validator("peer_token_file")
    @classmethod
    def _check_token(cls, path: Path | None) -> Path | None:
        try:
            if path is not None:
                TokenFile(path)
        except WrongToken as error:
            raise ValueError(str(error)) from error
        return path

    @property
    def peer_token(self) -> TokenFile | None:
        """The token, read again when its file changes."""
        return None if self.peer_token_file is None else TokenFile(self.peer_token_file)

    @property
    def peer_tls_files(self) -> TlsFiles | None:
        """What the credentials of channels are made of; None for channels in the clear."""
        if self.peer_ca_file is None:
            return None
        return TlsFiles(
            certificate=self.peer_certificate_file, key=self.peer_key_file, authorities=self.peer_ca_file
        )
