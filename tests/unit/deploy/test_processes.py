"""By the files in deploy/ processes start, and stop in the time that they are given."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from jobs_store.idempotency import DEFAULTS, HASH_VERSION
from pricing_service import app as pricing_app
from servicekit.settings import ServerSettings
from servicekit.telemetry import TelemetrySettings
from tests.certificates import Authority
from tests.unit.deploy.described import SECRETS, SETTINGS, Process, composed, deployed
from worker.app import LOOPS_STOP_LIMIT, PROVIDERS_STOP_LIMIT, TELEMETRY_STOP_LIMIT
from worker.settings import WorkerSettings

FOLDERS: Final = ("base", "overlays/example")
OF_THE_SDK: Final = frozenset({"OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"})
"""Read by the OpenTelemetry SDK itself."""
OF_THE_CLUSTER: Final = frozenset({"POD_IP", "POD_NAME", "POD_NAMESPACE"})
"""Stand in the values of other variables only."""


def everywhere() -> Iterator[object]:
    """Every process of every way to deploy."""
    for folder in FOLDERS:
        for name, process in deployed(folder).items():
            yield pytest.param(process, id=f"{folder} {name}")
    for name, process in composed().items():
        yield pytest.param(process, id=f"compose {name}")


each = pytest.mark.parametrize("process", list(everywhere()))


@pytest.fixture
def settings(process: Process, monkeypatch: pytest.MonkeyPatch, authority: Authority) -> ServerSettings:
    """Its settings, as the process would read them."""
    files = _files(authority)
    for name, value in process.environment.items():
        monkeypatch.setenv(name, str(files[Path(value).name]) if name.endswith("_FILE") else value)
    return process.settings_class.load()


def _files(authority: Authority) -> Mapping[str, Path]:
    """What a cluster would mount, by the names of the files."""
    certificate, key = authority.pair("tls")
    files = {"ca.crt": authority.file, "tls.crt": certificate, "tls.key": key}
    for name, content in SECRETS.items():
        files[name] = authority.folder / name
        files[name].write_text(content)
    return files


def test_every_process_is_deployed_both_ways() -> None:
    for found in (deployed("base"), deployed("overlays/example"), composed()):
        assert sorted(SETTINGS) == sorted(process.module for process in found.values())


@each
def test_every_variable_is_a_setting_of_the_process_that_gets_it(process: Process) -> None:
    known = {
        settings.variable_of(field) + suffix
        for settings in (process.settings_class, TelemetrySettings)
        for field in settings.model_fields
        for suffix in ("", "_FILE")
    }
    assert set() == process.environment.keys() - known - OF_THE_SDK - OF_THE_CLUSTER


@each
def test_its_variables_are_all_that_a_process_needs(process: Process, settings: ServerSettings) -> None:
    assert process.listens_at() == int(settings.listen.rpartition(":")[2])


@each
def test_a_process_may_end_in_its_own_time(process: Process, settings: ServerSettings) -> None:
    needed = settings.settle + settings.drain_grace + LOOPS_STOP_LIMIT + pricing_app.TELEMETRY_STOP_LIMIT
    assert needed <= process.grace


@each
def test_a_worker_may_finish_what_it_sent_and_have_it_accepted(
    process: Process, settings: ServerSettings
) -> None:
    if not isinstance(settings, WorkerSettings):
        assert process.module != "worker"
        return
    attempt = float(str(DEFAULTS[HASH_VERSION]["attempt_timeout"]))
    around = 2 * LOOPS_STOP_LIMIT + PROVIDERS_STOP_LIMIT + TELEMETRY_STOP_LIMIT
    assert attempt <= settings.drain_grace
    assert attempt + settings.ending_grace + settings.settle + around <= process.grace


@pytest.mark.parametrize(
    "process", [pytest.param(one, id=one.name) for one in deployed("overlays/example").values()]
)
def test_the_example_speaks_tls_and_knows_who_calls(process: Process, settings: ServerSettings) -> None:
    assert (False, True) == (settings.insecure, settings.authenticated)
    assert settings.tls_files is not None
    others = {"pricing_service", "worker"}
    assert (process.module in others) is settings.demands_client_certificates
