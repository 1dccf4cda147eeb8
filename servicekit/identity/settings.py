"""Who may call, as settings of a server."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import NoDecode
from typing_extensions import override

from servicekit.identity.api_keys import ApiKeys
from servicekit.identity.gate import Gate, Proofs
from servicekit.identity.key_sources import reader_of
from servicekit.identity.services import ServiceRule, Services
from servicekit.identity.signing_keys import KeyPace, SigningKeys
from servicekit.identity.tokens import ALGORITHMS, TokenRules, Tokens
from servicekit.settings import ServerSettings, SettingsError

_USUAL: Final = frozenset({"RS256", "ES256", "EdDSA"})


class IdentitySettings(ServerSettings):
    """What a server can be told about its callers. With none of these it believes their metadata: for
    development, on loopback.

    jwt_keys: the issuer's key set (JWKS), a path or an https URL; tokens are taken where it is set.
    jwt_issuer, jwt_audience: what `iss` and `aud` of a token have to be.
    jwt_algorithms: by which tokens may be signed; never HMAC or `none`.
    jwt_leeway: how far clocks may be apart. jwt_refresh: the key set is read again so often, and at once, but
        at most every 10 seconds, when a token names an unknown key.
    jwt_tenant_claim, jwt_user_claim, jwt_scope_claim: where a token says whose it is and what it is for.
    jwt_scope_prefix: what the names of our scopes begin with in tokens.
    services: who may call on behalf of others, as a JSON list of `name`, `scopes`, and `certificates` (URI or
        DNS names, for mTLS) or `subjects` (of tokens).
    """

    jwt_keys: str | None = Field(default=None, min_length=1)
    jwt_issuer: str | None = Field(default=None, min_length=1, validate_default=True)
    jwt_audience: str | None = Field(default=None, min_length=1, validate_default=True)
    jwt_algorithms: Annotated[frozenset[str], NoDecode] = _USUAL
    jwt_leeway: float = Field(default=5.0, ge=0, le=300)
    jwt_refresh: float = Field(default=300.0, ge=1, le=86_400)
    jwt_tenant_claim: str = Field(default="tenant", min_length=1)
    jwt_user_claim: str = Field(default="sub", min_length=1)
    jwt_scope_claim: str = Field(default="scope", min_length=1)
    jwt_scope_prefix: str = ""
    services: tuple[ServiceRule, ...] = ()

    @property
    def knows_callers(self) -> bool:
        """Whether each caller has to prove who it is, and is nobody else."""
        return self.jwt_keys is not None or bool(self.services)

    @property
    @override
    def authenticated(self) -> bool:
        """As of every server; a gate is proof, too."""
        return self.knows_callers or super().authenticated

    @field_validator("jwt_keys")
    @classmethod
    def _check_place(cls, place: str | None) -> str | None:
        if place is not None:
            reader_of(place)
        return place

    @field_validator("jwt_issuer", "jwt_audience")
    @classmethod
    def _check_beside_keys(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None and info.data.get("jwt_keys") is not None:
            raise ValueError("is required beside jwt_keys: a token for others would be taken here")
        return value

    @field_validator("jwt_algorithms", mode="before")
    @classmethod
    def _split_algorithms(cls, value: object) -> object:
        return frozenset(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value

    @field_validator("jwt_algorithms")
    @classmethod
    def _check_algorithms(cls, value: frozenset[str]) -> frozenset[str]:
        if not value or value - set(ALGORITHMS):
            raise ValueError(f"wanted some of {', '.join(ALGORITHMS)}")
        return value

    @field_validator("services")
    @classmethod
    def _check_services(cls, rules: tuple[ServiceRule, ...], info: ValidationInfo) -> tuple[ServiceRule, ...]:
        if problems := dict(_problems(rules, tokens=info.data.get("jwt_keys") is not None)):
            raise WrongServices(problems)
        Services(rules)
        return rules

    def gate(self, api_keys: ApiKeys | None = None, *, services_only: bool = False) -> Gate | None:
        """The gate that these settings describe; None when nobody is authenticated."""
        if not self.knows_callers:
            return None
        if services_only and not self.services:
            raise SettingsError({self.variable_of("services"): "is required: this server is for services"})
        services = Services(self.services)
        keys = self._signing_keys()
        return Gate(
            Proofs(
                tokens=None if keys is None else Tokens(keys, self._rules(), services),
                keys=keys,
                api_keys=api_keys,
                services=services,
                services_only=services_only,
            )
        )

    def _signing_keys(self) -> SigningKeys | None:
        if self.jwt_keys is None:
            return None
        pace = KeyPace(refresh=self.jwt_refresh)
        return SigningKeys(reader_of(self.jwt_keys), algorithms=self.jwt_algorithms, pace=pace)

    def _rules(self) -> TokenRules:
        assert self.jwt_issuer is not None
        assert self.jwt_audience is not None
        return TokenRules(
            issuer=self.jwt_issuer,
            audience=self.jwt_audience,
            algorithms=self.jwt_algorithms,
            leeway=self.jwt_leeway,
            tenant_claim=self.jwt_tenant_claim,
            user_claim=self.jwt_user_claim,
            scope_claim=self.jwt_scope_claim,
            scope_prefix=self.jwt_scope_prefix,
        )


class WrongServices(ValueError):
    """Some of the services cannot be; `problems` by their place."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{where}: {problem}" for where, problem in problems.items()))


def _problems(rules: tuple[ServiceRule, ...], *, tokens: bool) -> list[tuple[str, str]]:
    problems = []
    for number, rule in enumerate(rules):
        if not rule.certificates and not rule.subjects:
            problems.append((str(number), "has neither certificates nor subjects: nobody could be it"))
        if rule.subjects and not tokens:
            problems.append((f"{number}.subjects", "need jwt_keys: nothing else proves a subject"))
    return problems
