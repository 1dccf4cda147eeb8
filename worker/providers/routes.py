"""Which provider serves which model: by configuration, first match wins."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints

from worker.providers.protocol import Capabilities

if TYPE_CHECKING:
    from collections.abc import Sequence

_PARAMETERS: Final = ":"

Seconds = Annotated[float, Field(gt=0, le=3600)]
RouteName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,40}$")]
ModelPattern = Annotated[str, StringConstraints(min_length=1, max_length=256)]


class UnroutedModel(Exception):
    """No provider route is configured for the model."""

    reason = "UNKNOWN_MODEL"

    def __init__(self, model: str) -> None:
        self.model = model
        self.metadata = {"model": model[:128]}
        super().__init__(f"no provider route is configured for model {model[:128]!r}")


class TokenLimitField(StrEnum):
    """How the provider calls the most output tokens."""

    MAX_TOKENS = "max_tokens"
    MAX_COMPLETION_TOKENS = "max_completion_tokens"


class ProviderRoute(BaseModel):
    """One provider that speaks the OpenAI protocol, as configured.

    name: the provider's name in the price catalog, and the first part of its lanes.
    models: patterns (`gpt-*`) of the model names that go here.
    strip_name: models are called `NAME/MODEL` here and `MODEL` by the provider.
    connect: seconds for DNS and TCP, and once more for TLS.
    first_token, between_tokens: the longest silence before and after the first token, seconds.
    total: the longest call, seconds; the attempt's own limit usually ends it first.
    floor: the least time in which a call is useful, seconds.
    look_up_path: where an answer is asked for by its request key, such as `/answers/{key}`; empty if nowhere.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: RouteName
    models: tuple[ModelPattern, ...] = Field(min_length=1)
    base_url: str = Field(pattern=r"^https?://[^\s]+$")
    api_key: SecretStr = SecretStr("none")
    proxy: str | None = None
    strip_name: bool = False
    token_limit_field: TokenLimitField = TokenLimitField.MAX_TOKENS
    idempotency_key: bool = False
    cancel: bool = False
    look_up_path: str = Field(default="", pattern=r"^(/.*\{key\}.*)?$")
    connect: Seconds = 0.2
    first_token: Seconds = 60.0
    between_tokens: Seconds = 30.0
    total: Seconds = 600.0
    floor: Annotated[float, Field(ge=0)] = 0.05

    @property
    def capabilities(self) -> Capabilities:
        """What the provider can do about an unknown outcome."""
        return Capabilities(
            idempotency_key=self.idempotency_key, look_up=bool(self.look_up_path), cancel=self.cancel
        )

    def serves(self, model: str) -> bool:
        """Whether one of the patterns matches; case counts."""
        return any(fnmatchcase(model, pattern) for pattern in self.models)

    def upstream_model(self, model: str) -> str:
        """The provider's own name of the model."""
        return model.removeprefix(f"{self.name}/") if self.strip_name else model

    def lane(self, model: str) -> str:
        """The lane of a model on this route: parameters after a colon do not make another lane."""
        return f"{self.name}/{model.removeprefix(f'{self.name}/').partition(_PARAMETERS)[0]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """All routes, in order."""

    routes: Sequence[ProviderRoute]

    def __post_init__(self) -> None:
        """Names must be unique, or a lane would have two providers. Raises ValueError."""
        names = [route.name for route in self.routes]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise ValueError(f"provider routes must have different names; more than one is called {doubled}")

    def find(self, model: str) -> ProviderRoute:
        """The first route that serves the model. Raises UnroutedModel."""
        for route in self.routes:
            if route.serves(model):
                return route
        raise UnroutedModel(model)
