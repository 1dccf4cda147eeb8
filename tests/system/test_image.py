"""What deploy/Dockerfile puts into the image, made here: wheel and locked packages in an empty place."""

import asyncio
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from launcher.processes import PROJECT
from launcher.ready_lines import grpc_address
from tests.certificates import Authority
from tests.postgres import TestDatabase
from tests.unit.deploy.described import PROGRAMS, SECRETS, Process, deployed
from tests.waiting import eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]

UV: Final = PROGRAMS / "uv"
LOOPBACK: Final = "127.0.0.1:0"
START_LIMIT: Final = 30.0
NO_FILES: Final[Mapping[str, Path]] = {}
PSQL: Final = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/psql"))), None)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The environment of the image, from what `make setup` has fetched: its folder of programs."""
    folder = tmp_path_factory.mktemp("image")
    context = _context(folder / "context")
    _uv("build", "--wheel", "--out-dir", folder, *_hashed("--build-constraints", "dev.lock"), context)
    _uv("venv", "--python", sys.executable, folder / "hourglass")
    python = folder / "hourglass" / "bin" / "python"
    _uv("pip", "sync", "--python", python, "--require-hashes", PROJECT / "requirements" / "runtime.lock")
    _uv("pip", "install", "--python", python, "--no-deps", *folder.glob("*.whl"))
    yield python.parent
    shutil.rmtree(folder)


def _context(folder: Path) -> Path:
    """What .dockerignore lets the build see."""
    lines = (PROJECT / ".dockerignore").read_text().splitlines()
    for name in (line.removeprefix("!") for line in lines if line.startswith("!")):
        source = PROJECT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            folder.mkdir(exist_ok=True)
            shutil.copy(source, folder)
    return folder


def _hashed(option: str, lock: str) -> tuple[str, ...]:
    return (option, str(PROJECT / "requirements" / lock), "--require-hashes")


def _uv(*arguments: object) -> None:
    done = subprocess.run(
        [UV, *map(str, arguments), "--offline", "--quiet"], capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stderr


async def _run(program: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        env=variables,
        cwd="/",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


def _environment(
    process: Process, folder: Path, secrets: Mapping[str, str], files: Mapping[str, Path] = NO_FILES
) -> dict[str, str]:
    """The variables of the manifests, but for addresses: it all happens on one machine.

    secrets: what a file called `dsn` holds, by its folder. files: those of TLS, by their names.
    """
    found = {name: value for name, value in process.environment.items() if not name.startswith("OTEL_")}
    found.pop("HOURGLASS_WORKER_ADVERTISED_ADDRESS", None)
    for name, value in found.items():
        if name.endswith("_LISTEN"):
            found[name] = LOOPBACK
        if name.endswith("_FILE"):
            *_, room, key = Path(value).parts
            found[name] = str(
                files.get(key) or _written(folder / f"{room}-{key}", secrets.get(room, SECRETS.get(key)))
            )
        if name.endswith("_SETTLE"):
            found[name] = "0"
    return found


def _written(file: Path, content: str | None) -> Path:
    assert content is not None, file
    file.write_text(content)
    return file


@asynccontextmanager
async def _started(image: Path, process: Process, environment: Mapping[str, str]) -> AsyncIterator[str]:
    """The process of a manifest; its address. Ends it by SIGTERM, as a cluster would, and expects 0."""
    started = await asyncio.create_subprocess_exec(
        *(image / "python", "-m", process.module),
        env=environment,
        cwd="/",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert started.stdout is not None
    lines: list[str] = []
    try:
        async with asyncio.timeout(START_LIMIT):
            while not (lines and grpc_address(lines[-1])):
                line = await started.stdout.readline()
                assert line, "".join(lines)
                lines.append(line.decode())
        reading = asyncio.create_task(started.stdout.read())
        yield grpc_address(lines[-1]) or ""
    finally:
        if started.returncode is None:
            started.terminate()
        code = await started.wait()
    await reading
    assert 0 == code


async def test_the_image_migrates_and_every_process_of_the_manifests_starts_and_ends_in_it(
    image: Path, tmp_path: Path, empty_database: TestDatabase
) -> None:
    code, told = await _run(image / "python", "-m", "migrations", DATABASE_URL=empty_database.owner)
    assert (0, "applied") == (code, told.splitlines()[-1].split()[0]), told
    secrets = {
        "request": empty_database.request,
        "worker": empty_database.worker,
        "readonly": empty_database.readonly,
    }
    processes = deployed("base")
    async with AsyncExitStack() as stack:
        addresses: dict[str, str] = {}
        for name in ("pricing-service", "worker", "jobs-service"):
            environment = _environment(processes[name], tmp_path, secrets)
            if name == "jobs-service":
                environment["HOURGLASS_JOBS_PRICING_TARGET"] = addresses["pricing-service"]
                environment["HOURGLASS_JOBS_WORKERS_TARGET"] = addresses["worker"]
            addresses[name] = await stack.enter_async_context(_started(image, processes[name], environment))

        for address in addresses.values():
            await eventually(partial(_is_ready, image, address), within=START_LIMIT)
        code, told = await _run(image / "jobsctl", "--server", addresses["jobs-service"], "workers", "list")
        assert 0 == code, told


async def test_the_example_speaks_tls_and_answers_its_own_probes(
    image: Path, database: TestDatabase, authority: Authority
) -> None:
    secrets = {"request": database.request, "worker": database.worker, "readonly": database.readonly}
    for name, process in deployed("overlays/example").items():
        certificate, key = authority.pair(name, name, "localhost")
        files = {"tls.crt": certificate, "tls.key": key, "ca.crt": authority.file}
        environment = _environment(process, authority.folder, secrets, files)
        async with _started(image, process, environment) as address:
            probe = process.described["containers"][0]["readinessProbe"]["exec"]["command"]
            await eventually(partial(_passes, image, _here(probe, address, files)), within=START_LIMIT)
            code, told = await _run(image / "jobsctl", "--server", address, "--timeout", "2s", "health")
            assert 3 == code, told  # in the clear


def _here(probe: Sequence[str], address: str, files: Mapping[str, Path]) -> Sequence[str]:
    """The command of a probe with the port and the files that are used here."""
    port = address.rpartition(":")[2]
    located = [re.sub(r"/run/secrets/tls/(\S+)", lambda name: str(files[name[1]]), one) for one in probe]
    return [re.sub(r"^--server=localhost:\d+$", f"--server=localhost:{port}", one) for one in located]


async def _passes(image: Path, command: Sequence[str]) -> bool:
    code, _ = await _run(image / command[0], *command[1:])
    return code == 0


async def _is_ready(image: Path, address: str) -> bool:
    code, _ = await _run(image / "jobsctl", "--server", address, "health", "readiness")
    return code == 0


def test_the_image_has_what_runs_and_no_tool_of_ours(image: Path) -> None:
    names = {path.name for path in image.iterdir()}
    tools = {"pytest", "ruff", "mypy", "uv", "grpcurl", "buf", "uvicorn"}
    assert "jobsctl" in names
    assert set() == tools & names
    told = subprocess.run([image / "jobsctl", "--version"], capture_output=True, text=True, check=True)
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    assert f"jobsctl {version}\n" == told.stdout


@pytest.mark.skipif(PSQL is None, reason="no psql here (Debian's postgresql-client)")
async def test_passwords_are_given_by_the_script_of_the_compose_file(database: TestDatabase) -> None:
    assert PSQL is not None
    code, told = await _run(
        PSQL,
        *("--no-psqlrc", "--file", str(PROJECT / "deploy" / "compose" / "roles.sql"), database.owner),
        REQUEST_PASSWORD="it's",
        WORKER_PASSWORD="b",
        READONLY_PASSWORD="c",
    )
    assert (0, ["ALTER ROLE"] * 3) == (code, told.split("\n")[:-1])
