"""Prometheus and promtool: Debian's package `prometheus`, unpacked for the tests by `make prometheus`."""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

PROJECT = Path(__file__).parent.parent
RULES = PROJECT / "deploy" / "prometheus"
UNPACKED = PROJECT / ".hourglass" / "debian" / "usr" / "bin"
HOW_TO_INSTALL = "apt-get install prometheus, or without root: make prometheus"
WITHIN = 10.0


def program(name: str) -> str:
    """Where `prometheus` or `promtool` is; empty when it is nowhere."""
    return shutil.which(name) or shutil.which(name, path=str(UNPACKED)) or ""


def installed() -> bool:
    """Whether both are there."""
    return bool(program("prometheus") and program("promtool"))


def describe() -> str:
    """For the header of a test run."""
    if not installed():
        return f"prometheus: none found, so no rule is loaded and no alert is tried: {HOW_TO_INSTALL}"
    return f"prometheus: {program('prometheus')}"


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs promtool in the folder of the rules."""
    return subprocess.run(
        [program("promtool"), *arguments], cwd=RULES, capture_output=True, text=True, timeout=60, check=False
    )


class Prometheus:
    """A running one."""

    def __init__(self, address: str) -> None:
        self._address = address

    def query(self, expression: str) -> Sequence[Mapping[str, Any]]:
        """The samples of an instant query."""
        found: Sequence[Mapping[str, Any]] = self._get("query", query=expression)["result"]
        return found

    def rules(self) -> Sequence[Mapping[str, Any]]:
        """All rules with their health."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def ready(self) -> bool:
        """Whether it answers."""
        try:
            with urlopen(f"http://{self._address}/-/ready", timeout=WITHIN) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _get(self, what: str, **arguments: str) -> Any:
        with urlopen(f"http://{self._address}/api/v1/{what}?{urlencode(arguments)}", timeout=WITHIN) as got:
            return json.load(got)["data"]


@contextmanager
def prometheus(folder: Path, targets: Mapping[str, str], port: int) -> Iterator[Prometheus]:
    """One that scrapes these addresses, by job, every second, with our rules loaded."""
    configuration = folder / "prometheus.yml"
    configuration.write_text(yaml.safe_dump(_configured(targets)))
    process = subprocess.Popen(
        [
            program("prometheus"),
            f"--config.file={configuration}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield Prometheus(f"127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(timeout=WITHIN)


def _configured(targets: Mapping[str, str]) -> Mapping[str, Any]:
    """Our own configuration, with other targets and a quicker pace."""
    ours: dict[str, Any] = yaml.safe_load((RULES / "prometheus.yml").read_text())
    known = {one["job_name"] for one in ours["scrape_configs"]}
    assert known == set(targets), "every job of our configuration has its target here"
    ours["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s", "scrape_timeout": "1s"}
    ours["rule_files"] = [str(RULES / name) for name in ours["rule_files"]]
    ours["scrape_configs"] = [
        {"job_name": job, "static_configs": [{"targets": [address]}]} for job, address in targets.items()
    ]
    return ours
