"""The one step in which every request of a server that knows its callers is let in or refused."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, assert_never

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from budget.core import Budget
from servicekit.call import Arrival, Principal
from servicekit.identity.api_key_text import PREFIX
from servicekit.identity.api_keys import ApiKeys
from servicekit.identity.errors import InvalidToken, MissingCredentials, ScopeMissing, ServicesOnly
from servicekit.identity.scopes import Access, Scope
from servicekit.identity.services import Service, Services, refuse_delegation, spoken_for
from servicekit.identity.signing_keys import SigningKeys
from servicekit.identity.tokens import Caller, Tokens
from servicekit.lifecycle import Loops

AUTHORIZATION: Final = "authorization"
_BEARER: Final = "bearer "
_OK: Final = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proofs:
    """By what callers can prove who they are; None: not by that. services_only: nobody else is answered."""

    tokens: Tokens | None = None
    keys: SigningKeys | None = None
    api_keys: ApiKeys | None = None
    services: Services
    services_only: bool = False


class Gate:
    """Finds the principal of a request, and refuses what it may not do. An `Authenticate`."""

    def __init__(self, proofs: Proofs, *, meter: metrics.Meter | None = None) -> None:
        self._proofs = proofs
        self.decisions: Counter[tuple[str, str]] = Counter()
        """Requests by the kind of their credentials and how it ended: `ok`, or the reason."""
        self._observe(meter or metrics.get_meter("hourglass.servicekit"))

    def start(self, loops: Loops) -> None:
        """What has to run for the gate to open."""
        if self._proofs.keys is not None:
            loops.start("signing keys", self._proofs.keys.run)

    async def __call__(self, arrival: Arrival, budget: Budget) -> Principal:
        """Raises what servicekit.identity.errors has, InvalidRequest for a service's malformed metadata, and
        what a look-up raises."""
        credentials = _credentials(arrival)
        kind = _kind(credentials)
        try:
            principal = self._principal(await self._caller(credentials, arrival, budget), arrival)
            permit(principal, arrival.access)
        except Exception as error:
            self.decisions[kind, str(getattr(error, "reason", type(error).__name__))] += 1
            raise
        self.decisions[kind, _OK] += 1
        return principal

    async def _caller(self, credentials: str | None, arrival: Arrival, budget: Budget) -> Caller:
        proofs = self._proofs
        if credentials is None:
            return self._peer(arrival)
        if proofs.api_keys is not None and credentials.startswith(PREFIX):
            return await proofs.api_keys.principal(credentials, budget)
        if proofs.tokens is not None:
            return await proofs.tokens.caller(credentials, budget)
        raise InvalidToken("this server takes none of its kind")

    def _peer(self, arrival: Arrival) -> Service:
        services = self._proofs.services
        service = services.of_peer(arrival.peer()) if services.by_certificate else None
        if service is None:
            raise MissingCredentials
        return service

    def _principal(self, caller: Caller, arrival: Arrival) -> Principal:
        match caller:
            case Service():
                return spoken_for(caller, arrival)
            case Principal():
                refuse_delegation(arrival.metadata)
                if self._proofs.services_only:
                    raise ServicesOnly
                return caller
            case _:
                assert_never(caller)

    def _observe(self, meter: metrics.Meter) -> None:
        def decisions(_options: CallbackOptions) -> Iterable[Observation]:
            for (kind, outcome), count in list(self.decisions.items()):
                labels = {"hourglass.credentials": kind, "hourglass.outcome": outcome}
                yield Observation(count, labels)

        meter.create_observable_counter(
            "hourglass.identity.decisions",
            [decisions],
            unit="{request}",
            description="Requests by what they were authenticated with and how that ended",
        )


def permit(principal: Principal, access: Access | None) -> None:
    """ScopeMissing when the method asks for more; one that nobody has classified asks for everything."""
    wanted = frozenset(Scope) if access is None else access.scopes
    if not wanted <= principal.scopes:
        raise ScopeMissing(wanted - principal.scopes)


def _credentials(arrival: Arrival) -> str | None:
    """What the request proves its caller by; None without an `authorization`."""
    header = arrival.metadata.get(AUTHORIZATION)
    if header is None:
        return None
    # Another scheme is no token of ours; what is wrong with it is told by whoever verifies.
    return header[len(_BEARER) :].strip() if header[: len(_BEARER)].lower() == _BEARER else ""


def _kind(credentials: str | None) -> str:
    if credentials is None:
        return "certificate"
    return "api_key" if credentials.startswith(PREFIX) else "token"
