"""Settings of a process: one frozen class, read from the environment once, checked at the start.

A subclass sets its prefix, `model_config = SettingsConfigDict(env_prefix="HOURGLASS_JOBS_")`. Each field
is then `PREFIX` + its name in capitals, or that with `_FILE`: the value is read from the file named there
(secrets mounted as files). Nothing else reads the environment.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeVar, cast

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from typing_extensions import override

from servicekit.listen import CannotListen, refuse_open_bind
from servicekit.pem_settings import AUTHORITIES, CERTIFICATE, key_of, together_with
from servicekit.redaction import HIDDEN, redact
from servicekit.setting_types import HttpAddress, ListenAddress, LocalAddress
from transport.files import TlsFiles

_FILE: Final = "_FILE"
_OURS: Final = "Value error, "
"""What pydantic puts before the words of a validator of ours."""


class SettingsError(Exception):
    """The settings are wrong; the text lists every problem by the name of its variable."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = problems
        lines = "".join(f"\n  {variable}: {problem}" for variable, problem in problems.items())
        count = f"{len(problems)} settings are" if len(problems) > 1 else "1 setting is"
        super().__init__(f"{count} wrong:{lines}")


class Settings(BaseSettings):
    """Base of all settings classes."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore")

    @classmethod
    def load(cls, **overrides: Any) -> Self:
        """The settings of this process. SettingsError with all problems at once."""
        contents, problems = _from_files(cls, os.environ)
        try:
            settings = cls(**_decoded(cls, contents), **overrides)
        except ValidationError as error:
            problems = {**_problems(cls, error.errors()), **problems}
        else:
            if not problems:
                return settings
        raise SettingsError(problems)

    @classmethod
    @override
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, _Environment(settings_cls)

    @classmethod
    def unknown(cls) -> Mapping[str, str]:
        """Variables with this prefix that name no setting, each with the one that may have been meant."""
        prefix = cls.model_config.get("env_prefix", "")
        known = {cls.variable_of(name) for name in cls.model_fields}
        strange = [
            variable
            for variable in os.environ
            if prefix
            and variable.startswith(prefix)
            and known.isdisjoint({variable, variable.removesuffix(_FILE)})
        ]
        return {each: next(iter(get_close_matches(each, known, n=1)), "") for each in strange}

    def redacted(self) -> Mapping[str, str]:
        """Every value as text that may be printed: without secrets and passwords."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {
            name: HIDDEN if isinstance(value, SecretStr) else redact(str(value))
            for name, value in values.items()
        }

    @classmethod
    def variable_of(cls, name: str) -> str:
        """The environment variable of a field."""
        alias = cls.model_fields[name].validation_alias if name in cls.model_fields else None
        if isinstance(alias, str):
            return alias.upper()
        return f"{cls.model_config.get('env_prefix', '')}{name}".upper()


First = TypeVar("First", bound=Settings)
Second = TypeVar("Second", bound=Settings)


def load_all(first: type[First], second: type[Second], **overrides: Any) -> tuple[First, Second]:
    """The settings of a process, of two classes; `overrides` are of the first.

    SettingsError with the problems of both at once.
    """
    problems: dict[str, str] = {}
    loaded: list[Settings] = []
    for kind, given in ((first, overrides), (second, {})):
        try:
            loaded.append(kind.load(**given))
        except SettingsError as error:
            problems.update(error.problems)
    if problems:
        raise SettingsError(problems)
    return cast("First", loaded[0]), cast("Second", loaded[1])


@dataclass(frozen=True, slots=True)
class _NotJson:
    """What stands in the place of a value that cannot be read, so that all others are still checked."""

    why: str


class _Environment(EnvSettingsSource):
    @override
    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        try:
            return super().decode_complex_value(field_name, field, value)
        except ValueError as error:
            return _NotJson(f"is no JSON: {error}")


def _from_files(cls: type[Settings], environ: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """What stands in files, and what is wrong with the rest, both by variable."""
    contents, problems = {}, {}
    for name in cls.model_fields:
        variable = cls.variable_of(name)
        path = environ.get(variable + _FILE)
        if path is None:
            continue
        if variable in environ:
            problems[variable] = f"is set, and so is {variable}{_FILE}; set one of them"
            continue
        try:
            contents[variable] = Path(path).read_text().removesuffix("\n")
        except (OSError, UnicodeDecodeError) as error:
            problems[variable + _FILE] = f"{path!r} cannot be read: {error.args[-1]}"
    return contents, problems


def _decoded(cls: type[Settings], contents: Mapping[str, str]) -> dict[str, Any]:
    """The values by field, read as they would be from variables: JSON where a variable holds JSON."""
    source = _Environment(cls)
    source.env_vars = {variable.lower(): text for variable, text in contents.items()}
    return source()


def _problems(cls: type[Settings], errors: list[ErrorDetails]) -> dict[str, str]:
    problems: dict[str, str] = {}
    for error in errors:
        name, *path = map(str, error["loc"] or ("settings",))
        variable = ".".join([cls.variable_of(name), *path])
        problems.update(_problems_inside(variable, error))
    return problems


def _problems_inside(variable: str, error: ErrorDetails) -> Mapping[str, str]:
    """What is wrong with one variable. A validator's exception with `problems` tells of several, by path."""
    several = getattr(error.get("ctx", {}).get("error"), "problems", None)
    if several:
        return {".".join(filter(None, (variable, path))): problem for path, problem in several.items()}
    if isinstance(unreadable := error["input"], _NotJson):
        return {variable: unreadable.why}
    return {variable: "is required" if error["type"] == "missing" else error["msg"].removeprefix(_OURS)}


class ProcessSettings(Settings):
    """What every process of ours can be told.

    log_level: of our own lines and of those of libraries. log_format: `auto` is `console` on a terminal, else
        `json`, one object a line.
    """

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_format: Literal["auto", "json", "console"] = "auto"


class ServerSettings(ProcessSettings):
    """What every gRPC server can be told. Times are seconds, sizes bytes.

    listen: `host:port` or `unix:/path`; port 0 takes a free one. Beyond loopback it takes TLS and
        authentication, or `insecure`.
    insecure: lets addresses beyond loopback be listened on in the clear, or without knowing who calls. The
        same as the flag `--insecure`.
    tls_certificate_file: the server's certificate chain in PEM, its own first. With it the server speaks TLS
        alone. tls_key_file: the key of that certificate, not encrypted. tls_client_ca_file: a client has to
        have a certificate of one of these authorities (mTLS). The files are read again when they change.
    mtls_listen: a second address. With it certificates are demanded of clients there, and clients at `listen`
        need none.
    tls_reload_interval: between two looks at certificate files.
    reflection: whether grpcurl and its like may ask for the contract.
    max_connections: at one address; more are closed at once. max_concurrent_streams: requests at once on one
        connection; a client holds back what is more. min_ping_interval: a client that pings more often, with
        nothing else to send, is disconnected (too_many_pings). max_metadata_bytes: of one request, as HTTP/2
        counts: 32 for each key beside its text. max_request_bytes, max_response_bytes: of one
        message.
    metrics_listen: `host:port` where Prometheus scrapes `/metrics`; unset opens no port.
    admin_listen: where channelz answers; unset leaves it out. Loopback only.
    drain_grace: how long requests in flight may go on after a stop.
    settle: how long the server goes on after it reported not to be ready, so that balancers notice.
    max_connection_age: ask clients to reconnect after this, which spreads them over servers.
    max_stream_age: a stream ends after this, with its cursor; those of an old connection, too.
    ledger_tenants: tenants who get the ledger in the trailing metadata; everyone when unset.
    """

    listen: ListenAddress = "127.0.0.1:0"
    insecure: bool = False
    tls_certificate_file: Annotated[Path | None, CERTIFICATE] = None
    tls_key_file: Annotated[Path | None, key_of("tls_certificate_file")] = Field(
        default=None, validate_default=True
    )
    tls_client_ca_file: Annotated[Path | None, AUTHORITIES, together_with("tls_certificate_file")] = None
    mtls_listen: Annotated[ListenAddress | None, together_with("tls_client_ca_file")] = None
    tls_reload_interval: float = Field(default=5.0, gt=0)
    admin_listen: LocalAddress | None = None
    metrics_listen: HttpAddress | None = None
    reflection: bool = True
    drain_grace: float = Field(default=10.0, gt=0)
    settle: float = Field(default=0.0, ge=0)
    max_connections: int = Field(default=4096, gt=0)
    max_concurrent_streams: int = Field(default=256, gt=0)
    min_ping_interval: float = Field(default=15.0, ge=1)
    max_metadata_bytes: int = Field(default=16 * 1024, ge=4096, le=64 * 1024)
    max_request_bytes: int = Field(default=2 * 1024 * 1024, gt=0)
    max_response_bytes: int = Field(default=8 * 1024 * 1024, gt=0)
    max_connection_age: float | None = Field(default=None, gt=0)
    max_stream_age: float = Field(default=1800.0, gt=0)
    ledger_tenants: Annotated[frozenset[str] | None, NoDecode] = None

    @classmethod
    def load(cls, **overrides: Any) -> Self:
        """As of every settings class. An address that must not be listened on is told of here, too."""
        settings = super().load(**overrides)
        try:
            problem = refuse_open_bind(
                settings.listen,
                authenticated=settings.authenticated,
                encrypted=settings.tls_files is not None,
                insecure=settings.insecure,
            )
        except CannotListen as error:
            problem = str(error)
        if problem is not None:
            raise SettingsError({cls.variable_of("listen"): problem})
        return settings

    @property
    def authenticated(self) -> bool:
        """Whether whoever calls at `listen` has to prove who they are."""
        return self.demands_client_certificates

    @property
    def tls_files(self) -> TlsFiles | None:
        """What the server's credentials are made of; None for a server in the clear."""
        if self.tls_certificate_file is None:
            return None
        return TlsFiles(
            certificate=self.tls_certificate_file, key=self.tls_key_file, authorities=self.tls_client_ca_file
        )

    @property
    def demands_client_certificates(self) -> bool:
        """Whether everyone at `listen` has to have a certificate."""
        return self.tls_client_ca_file is not None and self.mtls_listen is None

    @field_validator("ledger_tenants", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return frozenset(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value
