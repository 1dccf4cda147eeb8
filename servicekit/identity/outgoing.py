"""What goes with each call to another process of ours, beside its trace: who calls, and for whom."""

from servicekit.call import TENANT_HEADER
from transport.bearer import Metadata, Token, bearer


class Outgoing:
    """token: what this process proves itself by, where its certificate does not; None: nothing."""

    def __init__(self, token: Token | None = None) -> None:
        self._token = token

    def metadata(self, *, tenant: str = "") -> Metadata:
        """tenant: for whom the call is; empty: for nobody."""
        spoken_for = ((TENANT_HEADER, tenant),) if tenant else ()
        return (*bearer(self._token), *spoken_for)
