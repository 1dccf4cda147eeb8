"""A process with wrong settings tells all by the names of variables, begins nothing, and ends with 2."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from servicekit.start import WRONG_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = [pytest.mark.faults, pytest.mark.timeout(60)]
SECRET = "hunter2"
EVERY: Mapping[str, tuple[str, str]] = {
    "LOG_LEVEL": ("LOUD", "Input should be 'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
    "METRICS_LISTEN": ("127.0.0.1:99999", "wanted host:port"),
    "MAX_CONCURRENT_STREAMS": ("many", "Input should be a valid integer"),
    "TLS_CERTIFICATE_FILE": ("/nowhere/server.pem", "/nowhere/server.pem"),
}
TELEMETRY: Mapping[str, tuple[str, str]] = {
    "OTEL_TRACES_SAMPLER": ("sometimes", "'parentbased_traceidratio'"),
    "OTEL_TRACES_SAMPLER_ARG": ("2", "less than or equal to 1"),
    "OTEL_METRICS_EXPORTER": ("statsd", "'otlp' or 'none'"),
}
OWN: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "jobs_service": {
        "HOURGLASS_JOBS_DATABASE_URL": (f"mysql://u:{SECRET}@h/d", "wanted postgresql://"),
        "HOURGLASS_JOBS_POOL_SIZE": ("0", "greater than 0"),
        "HOURGLASS_JOBS_RETENTION": ("{", "is no JSON"),
        "HOURGLASS_JOBS_POLICIES": ('{"postgres": {"limit": -1}}', "limit"),
    },
    "pricing_service": {
        "HOURGLASS_PRICING_MARKUP": ("11", "0 to 10"),
        "HOURGLASS_PRICING_CATALOG_DIRECTORY": ("/nowhere", "does not point to a directory"),
    },
    "worker": {
        "HOURGLASS_WORKER_DATABASE_URL": (f"postgresql://u:{SECRET}@h:port/d", "its port must be a number"),
        "HOURGLASS_WORKER_ROUTES": (f'[{{"api_key": "{SECRET}"', "is no JSON"),
        "HOURGLASS_WORKER_CUT_OFF": ("31", "renewal_interval (8) < cut_off < lease (30)"),
        "HOURGLASS_WORKER_LEASE_FILE": ("/nowhere/lease", "cannot be read"),
    },
}


@pytest.mark.parametrize("module", OWN)
def test_all_that_is_wrong_is_told_at_once_and_nothing_is_begun(module: str) -> None:
    prefix = f"HOURGLASS_{module.removesuffix('_service').upper()}_"
    wrong = {**{f"{prefix}{name}": each for name, each in EVERY.items()}, **OWN[module], **TELEMETRY}
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        environment = {name: value for name, (value, _) in wrong.items()}
        environment[f"{prefix}LISTEN"] = f"127.0.0.1:{port.getsockname()[1]}"
        ended = subprocess.run(
            [sys.executable, "-m", module],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    assert (WRONG_SETTINGS, "") == (ended.returncode, ended.stdout)
    first, *lines = ended.stderr.splitlines()
    told = {line.partition(":")[0].strip().partition(".")[0]: line for line in lines}
    assert wrong.keys() <= told.keys()
    assert [] == [name for name, (_, words) in wrong.items() if words not in told[name]]
    assert f"{len(lines)} settings are wrong:" == first
    assert SECRET not in ended.stderr
