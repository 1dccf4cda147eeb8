"""The processes of the stack, as commands: what each needs to know of the others."""

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from launcher.processes import Command
from launcher.ready_lines import grpc_address, http_url

ANY_PORT: Final = "127.0.0.1:0"
LOCAL: Final = "local"
SIMULATED: Final = "simulated"
MODEL_SERVERS: Final[Sequence[str]] = (LOCAL, SIMULATED)
REAL_MODEL: Final = "smollm2-135m"

_Environment = Mapping[str, str]
_BASE: Final = {"LISTEN": ANY_PORT, "LOG_FORMAT": "json"}


def model_server(name: str) -> Command:
    """A model server, by the name that it has in the price catalog."""
    return Command(
        name=f"{name}-model",
        module=f"model_servers.{name}",
        arguments=("--port", "0"),
        ready=http_url,
    )


def pricing_service(name: str, environment: _Environment) -> Command:
    """PricingService: needs nobody."""
    return _service(name, "pricing_service", "PRICING", {**_BASE}, environment)


def worker(name: str, environment: _Environment, *, database: str, models: Mapping[str, str]) -> Command:
    """A worker. database: the worker role's DSN. models: base URLs of the model servers, by name."""
    own = {**_BASE, "DATABASE_URL": database, "NAME": name, "ROUTES": json.dumps(routes(models))}
    return _service(name, "worker", "WORKER", own, environment)


def jobs_service(
    name: str,
    environment: _Environment,
    *,
    database: str,
    reaper_database: str,
    readonly_database: str | None = None,
    pricing: str,
    workers: Sequence[str] = (),
) -> Command:
    """JobService. DSNs of the request, the worker and the read-only role; the others: host:port.

    readonly_database: None where nothing is verified.
    """
    own = {
        **_BASE,
        "DATABASE_URL": database,
        "WORKER_DATABASE_URL": reaper_database,
        **({} if readonly_database is None else {"READONLY_DATABASE_URL": readonly_database}),
        "PRICING_TARGET": pricing,
        **_workers_target(workers),
    }
    return _service(name, "jobs_service", "JOBS", own, environment)


def routes(models: Mapping[str, str]) -> list[dict[str, Any]]:
    """The worker's provider routes to the model servers that run."""
    return [{"name": name, "base_url": f"{url}/v1", **_ROUTES[name]} for name, url in models.items()]


def served(model: str) -> bool:
    """Whether one of the stack's model servers answers for the model."""
    patterns = [pattern for route in _ROUTES.values() for pattern in route["models"]]
    return any(fnmatchcase(model, pattern) for pattern in patterns)


def _workers_target(workers: Sequence[str]) -> _Environment:
    match workers:
        case []:
            return {}
        case [only]:
            return {"WORKERS_TARGET": only}
        case _:
            return {"WORKERS_TARGET": f"ipv4:{','.join(workers)}"}


def _service(name: str, module: str, prefix: str, own: _Environment, environment: _Environment) -> Command:
    """`environment` holds the caller's settings without the prefix; they win over our own."""
    settings = {f"HOURGLASS_{prefix}_{key}": value for key, value in {**own, **environment}.items()}
    return Command(name=name, module=module, environment=settings, ready=grpc_address)


_ROUTES: Final[Mapping[str, Mapping[str, Any]]] = {
    LOCAL: {"models": [REAL_MODEL]},
    SIMULATED: {
        "models": ["simulated", "simulated-*", "simulated:*"],
        "idempotency_key": True,
        "look_up_path": "/chat/completions/by-request/{key}",
    },
}
