"""What deploy/ says about each process, read for the tests: commands, variables, probes, periods of grace."""

import functools
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from jobs_service.settings import JobsSettings
from pricing_service.settings import PricingSettings
from servicekit.settings import ServerSettings
from worker.settings import WorkerSettings

PROJECT: Final = Path(__file__).parents[3]
DEPLOY: Final = PROJECT / "deploy"
PROGRAMS: Final = Path(sys.executable).parent
KUBERNETES: Final = DEPLOY / "kubernetes"
SETTINGS: Final[Mapping[str, type[ServerSettings]]] = {
    "jobs_service": JobsSettings,
    "pricing_service": PricingSettings,
    "worker": WorkerSettings,
}
SECRETS: Final[Mapping[str, str]] = {
    "dsn": "postgresql://role:secret@db:5432/hourglass",
    "routes.json": '[{"name": "openai", "models": ["gpt-*"], "base_url": "https://models.example/v1"}]',
}
"""What the files of secrets hold, by their name."""
Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A container or a service of a compose file that runs a process of ours."""

    name: str
    module: str
    environment: Mapping[str, str]
    grace: float
    described: Document

    @property
    def settings_class(self) -> type[ServerSettings]:
        return SETTINGS[self.module]

    def listens_at(self, field: str = "listen") -> int:
        """The port of an address among its variables."""
        return int(self.environment[self.settings_class.variable_of(field)].rpartition(":")[2])


@functools.cache
def rendered(folder: str) -> Sequence[Document]:
    """The manifests that kustomize makes of a folder of deploy/kubernetes."""
    kubectl = PROGRAMS / "kubectl"
    done = subprocess.run(
        [kubectl, "kustomize", KUBERNETES / folder], capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def of_kind(documents: Sequence[Document], kind: str) -> Mapping[str, Document]:
    """Those of one kind, by name."""
    return {each["metadata"]["name"]: each for each in documents if each["kind"] == kind}


def deployed(folder: str) -> Mapping[str, Process]:
    """The processes of rendered manifests, by the name of their Deployment."""
    found = {}
    for name, each in of_kind(rendered(folder), "Deployment").items():
        pod = each["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        found[name] = Process(
            name=name,
            module=_module(container["args"]),
            environment={one["name"]: _value(one) for one in container["env"]},
            grace=pod["terminationGracePeriodSeconds"],
            described=pod,
        )
    return found


def composed() -> Mapping[str, Process]:
    """The processes of ours in the compose file, by service."""
    return {
        name: Process(
            name=name,
            module=_module(service["command"]),
            environment={key: _filled_in(value) for key, value in service["environment"].items()},
            grace=float(service["stop_grace_period"].removesuffix("s")),
            described=service,
        )
        for name, service in compose_file()["services"].items()
        if service.get("command", [""])[-1] in SETTINGS
    }


def compose_file() -> Document:
    """The compose file."""
    read: Document = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return read


def _module(arguments: Sequence[str]) -> str:
    """What `python -m` runs, also at the end of a script."""
    return " ".join(arguments).rpartition("python -m ")[2].strip()


def _value(variable: Document) -> str:
    """As a cluster would fill it in."""
    value = variable.get("value", "10.0.0.7")
    return re.sub(r"\$\((?:POD_NAME|POD_IP|POD_NAMESPACE)\)", "10.0.0.7", value)


def _filled_in(value: str) -> str:
    """As Compose would, from deploy/.env."""
    return re.sub(r"\$\{([A-Z_]+)[^}]*\}", lambda name: _EXAMPLE_ENV.get(name[1]) or "secret", value)


def _example_env() -> Mapping[str, str]:
    lines = (DEPLOY / "compose" / "example.env").read_text().splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: value.strip("'") for name, _, value in pairs}


_EXAMPLE_ENV: Final = _example_env()
