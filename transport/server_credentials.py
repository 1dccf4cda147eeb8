"""A server's credentials that follow their files: every new connection gets what is good at its beginning."""

import grpc

from transport.files import Contents
from transport.held import HeldFiles


def server_credentials(held: HeldFiles, *, client_certificates: bool) -> grpc.ServerCredentials:
    """For one port. client_certificates: whether a client must have one of the held authorities.

    grpc's Python either demands a client's certificate or does not ask for it: there is no "if it has one".
    Connections that are open keep what they began with.
    """
    given = held.current()

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        """Called by core, in a thread of its own, before each handshake; None: as before."""
        nonlocal given
        contents = held.current()
        if contents is given:
            return None
        given = contents
        return _configuration(contents, client_certificates=client_certificates)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(given, client_certificates=client_certificates),
        fetch,  # type: ignore[arg-type] # its types do not know that None means no change
        require_client_authentication=client_certificates,
    )


def _configuration(contents: Contents, *, client_certificates: bool) -> grpc.ServerCertificateConfiguration:
    if contents.pair is None:
        raise ValueError("a server needs a certificate")
    if client_certificates and contents.authorities is None:
        raise ValueError("to demand a client's certificate takes authorities to check it by")
    return grpc.ssl_server_certificate_configuration([contents.pair], root_certificates=contents.authorities)
