"""Clients over TLS: the Python client, jobsctl and grpcurl, and what they say when it cannot be."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hourglass_client import AsyncClient, Client, HourglassError, TlsFiles, Unavailable, WrongFiles
from servicekit.server import Server
from tests.certificates import Authority
from tests.cli import Jobsctl
from tests.integration.servicekit.secure_server import port_of, serving

JOB = "01a22d49-b7d7-7075-b32c-ecffb9470433"
REACHED = "METHOD_NOT_FOUND"
"""What a server answers that has no JobService: it was reached."""

Call = Callable[[str, TlsFiles | None], Awaitable[HourglassError]]


async def blocking(target: str, tls: TlsFiles | None) -> HourglassError:
    def call() -> HourglassError:
        with Client.connect(target, tls=tls) as client, pytest.raises(HourglassError) as failed:
            client.get(JOB, timeout=1.0)
        return failed.value

    return await asyncio.to_thread(call)


async def asynchronous(target: str, tls: TlsFiles | None) -> HourglassError:
    async with AsyncClient.connect(target, tls=tls) as client:
        with pytest.raises(HourglassError) as failed:
            await client.get(JOB, timeout=1.0)
    return failed.value


def target_of(server: Server) -> str:
    return f"127.0.0.1:{port_of(server.address)}"


def mtls(authority: Authority) -> dict[str, Any]:
    return {**authority.server(), "tls_client_ca_file": authority.file}


def files_of(authority: Authority, *names: str) -> TlsFiles:
    certificate, key = authority.pair("client", *names)
    return TlsFiles(certificate=certificate, key=key, authorities=authority.file)


@pytest.mark.parametrize("call", [blocking, asynchronous])
async def test_the_client_shows_its_certificate(call: Call, authority: Authority) -> None:
    async with serving(**mtls(authority)) as server:
        error = await call(target_of(server), files_of(authority, "client.example"))

    assert REACHED == error.reason


@pytest.mark.parametrize("call", [blocking, asynchronous])
@pytest.mark.parametrize(
    ("trusting", "hint"),
    [(None, "does the server speak TLS"), ("other", "not of an authority that is trusted here")],
)
async def test_a_client_that_cannot_come_in_says_what_to_look_at(
    call: Call, trusting: str | None, hint: str, authority: Authority, other: Authority
) -> None:
    tls = None if trusting is None else TlsFiles(authorities=other.file)
    async with serving(**authority.server()) as server:
        error = await call(target_of(server), tls)

    assert Unavailable is type(error) or "DEADLINE_EXCEEDED" == error.code.name
    assert hint in str(error)


async def test_a_client_over_tls_says_that_the_server_does_not_speak_it(authority: Authority) -> None:
    async with serving() as server:
        error = await asynchronous(target_of(server), TlsFiles(authorities=authority.file))

    assert "the server does not speak TLS" in str(error)


async def test_the_client_refuses_files_that_are_wrong(authority: Authority, other: Authority) -> None:
    certificate, _ = authority.pair("client")
    _, key = other.pair("client")

    with pytest.raises(WrongFiles, match="key: is not the key of the certificate"):
        AsyncClient.connect("localhost:1", tls=TlsFiles(certificate=certificate, key=key))


async def test_jobsctl_over_tls(authority: Authority) -> None:
    certificate, key = authority.pair("operator", "operator.example")
    variables = {
        "JOBSCTL_TLS_CA": str(authority.file),
        "JOBSCTL_TLS_CERT": str(certificate),
        "JOBSCTL_TLS_KEY": str(key),
    }
    async with serving(**mtls(authority)) as server:
        jobsctl = Jobsctl(target_of(server))
        good, bare, half = await asyncio.gather(
            jobsctl("health", **variables),
            jobsctl("health", "--timeout", "2"),
            jobsctl("health", "--tls-key", str(key)),
        )

    assert "readiness" in good.out, good.err
    assert (3, True) == (bare.code, "does the server speak TLS" in bare.err), bare.err
    assert (2, True) == (half.code, "--tls-cert and --tls-key come together" in half.err)


async def test_grpcurl_over_mtls(authority: Authority) -> None:
    certificate, key = authority.pair("operator", "operator.example")
    files = ("-cacert", authority.file, "-cert", certificate, "-key", key)
    grpcurl = Path(sys.executable).parent / "grpcurl"
    async with serving(**mtls(authority)) as server:
        process = await asyncio.create_subprocess_exec(
            *(grpcurl, *files, target_of(server), "list"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await process.communicate()

    assert "grpc.health.v1.Health" in out.decode()
