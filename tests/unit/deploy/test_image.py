"""The image: built of what is locked, of nothing else, and not run by root."""

import re
import subprocess
import tomllib
from typing import Final

from servicekit.settings import ServerSettings
from tests.unit.deploy.described import DEPLOY, PROGRAMS, PROJECT, composed

DOCKERFILE: Final = (DEPLOY / "Dockerfile").read_text()


def test_hadolint_finds_nothing() -> None:
    subprocess.run([PROGRAMS / "hadolint", DEPLOY / "Dockerfile"], check=True)


def test_the_build_sees_every_package_and_no_data() -> None:
    ignored = (PROJECT / ".dockerignore").read_text().splitlines()
    packages = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]["packages"]
    seen = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert "*" in ignored
    assert {*packages, "LICENSE", "README.md", "pyproject.toml", "requirements"} == seen


def test_everything_that_is_installed_from_outside_is_named_with_its_hash() -> None:
    commands = DOCKERFILE.replace("\\\n", " ").splitlines()
    installs = [
        part
        for line in commands
        for part in line.split("&&")
        if re.search("pip (install|sync)|uv build", part)
    ]
    assert 4 == len(installs)
    assert [True] * 4 == ["--require-hashes" in one or "/wheels/hourglass-" in one for one in installs]


def test_nobody_is_root_and_a_cluster_can_see_that() -> None:
    assert ["10001:10001"] == re.findall(r"^USER (.*)$", DOCKERFILE, flags=re.MULTILINE)
    assert "fsGroup: 10001" in (DEPLOY / "kubernetes" / "base" / "worker.yaml").read_text()


def test_the_ports_are_those_that_the_processes_listen_on() -> None:
    exposed = re.findall(r"^EXPOSE (.*)$", DOCKERFILE, flags=re.MULTILINE)[0].split()
    ports = {
        str(one.listens_at(field)) for one in composed().values() for field in ("listen", "metrics_listen")
    }
    assert ports == set(exposed)
    assert {"listen", "metrics_listen"} <= ServerSettings.model_fields.keys()
