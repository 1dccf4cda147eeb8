"""The compose file: valid, and true to the files and services that it names."""

import re
import subprocess

import pytest
import yaml

from jobsctl.__main__ import run
from jobsctl.exits import ExitCode
from tests.unit.deploy.described import DEPLOY, PROGRAMS, PROJECT, SETTINGS, Process, compose_file, composed

processes = pytest.mark.parametrize("process", list(composed().values()), ids=lambda process: process.name)


def test_the_file_fits_the_specification_of_compose() -> None:
    check = PROGRAMS / "check-jsonschema"
    file = DEPLOY / "compose.yaml"
    subprocess.run([check, "--builtin-schema", "vendor.compose-spec", file], check=True)


def test_every_file_that_is_mounted_is_there() -> None:
    mounts = [
        str(mount).partition(":")[0]
        for service in compose_file()["services"].values()
        for mount in service.get("volumes", ())
    ]
    files = [mount for mount in mounts if mount.startswith(".")]
    named = compose_file()["volumes"].keys()
    assert [] == [file for file in files if not (DEPLOY / file).exists()]
    assert set(mounts) - set(files) == set(named)


def test_every_variable_of_the_environment_file_is_used_and_no_other() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    example = (DEPLOY / "compose" / "example.env").read_text()
    used = set(re.findall(r"\$\{([A-Z_]+)", text))
    demanded = set(re.findall(r"\$\{([A-Z_]+):\?", text))
    assert used == set(re.findall(r"^([A-Z_]+)=", example, flags=re.MULTILINE))
    assert used == demanded


@processes
def test_a_health_check_is_a_command_that_jobsctl_takes(
    process: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, program, *arguments = process.described["healthcheck"]["test"]
    assert ("CMD", "jobsctl") == (kind, program)
    assert f"localhost:{process.listens_at()}" in arguments
    assert ExitCode.OK == run([*arguments, "--help"])
    assert "Usage: jobsctl health" in capsys.readouterr().out


def test_targets_are_services_of_the_file() -> None:
    found = composed()
    ports = {f"dns:///{name}:{process.listens_at()}" for name, process in found.items()}
    targets = [
        value
        for process in found.values()
        for name, value in process.environment.items()
        if name.endswith("_TARGET")
    ]
    assert 2 == len(targets)
    assert set(targets) <= ports


def test_prometheus_scrapes_the_services_at_their_metrics_ports() -> None:
    scraped = {
        (name, each["port"])
        for job in yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
        for each in job["dns_sd_configs"]
        for name in each["names"]
    }
    assert {(name, one.listens_at("metrics_listen")) for name, one in composed().items()} == scraped


def test_whatever_is_waited_for_is_a_service() -> None:
    services = compose_file()["services"]
    for service in services.values():
        assert set(service.get("depends_on", ())) <= services.keys()


def test_services_start_in_the_order_of_what_they_need() -> None:
    def needs(name: str) -> dict[str, str]:
        waits = compose_file()["services"][name]["depends_on"]
        return {other: wait["condition"] for other, wait in waits.items()}

    done, healthy = "service_completed_successfully", "service_healthy"
    assert {"postgres": healthy} == needs("migrations")
    assert {"migrations": done} == needs("roles")
    assert {"roles": done} == needs("worker")
    assert {"roles": done, "pricing": healthy} == needs("jobs")


def test_what_is_ours_runs_without_powers() -> None:
    for name in (*composed(), "migrations"):
        service = compose_file()["services"][name]
        assert (True, ["ALL"]) == (service["read_only"], service["cap_drop"])
    assert len(SETTINGS) == len(composed())


def test_passwords_never_get_into_the_repository() -> None:
    assert ".env" in (PROJECT / ".gitignore").read_text().splitlines()
    assert not re.search("PASSWORD=.", (DEPLOY / "compose" / "example.env").read_text())
