"""What every command knows: whom to call, as whom, for how long, and how to show the answer."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transport.bearer import Token
    from transport.files import TlsFiles


class Output(StrEnum):
    """The form of what is written to stdout."""

    TABLE = "table"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The global options.

    server: host:port. tls: how to speak TLS with it; None: in the clear.
    token: what proves who calls; None: nothing does.
    tenant, user: empty for the server's defaults.
    timeout: seconds for the whole command; None: each call may take what its method takes.
    ledger: draw where the time of each call went.
    """

    server: str
    tls: "TlsFiles | None" = None
    token: "Token | None" = field(default=None, repr=False)
    tenant: str = ""
    user: str = ""
    timeout: float | None = None
    output: Output = Output.TABLE
    ledger: bool = False

    @property
    def named(self) -> tuple[tuple[str, str], ...]:
        """Who calls, where that was said."""
        said = (("x-tenant-id", self.tenant), ("x-user-id", self.user))
        return tuple((name, value) for name, value in said if value)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """That, and the proof of it as it is now."""
        proof = () if self.token is None else (("authorization", f"Bearer {self.token()}"),)
        return (*self.named, *proof)
