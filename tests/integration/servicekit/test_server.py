"""A server of ours over real sockets: where it listens, what it reports, how it ends."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import structlog
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from pydantic import ValidationError

from servicekit.channels import client_options, server_options
from servicekit.drain import Drain
from servicekit.health import Health, ReadinessLoop
from servicekit.listen import CannotListen, bind
from servicekit.methods import Kind, MethodPolicy
from servicekit.request import Terms
from servicekit.server import Server
from servicekit.settings import ServerSettings
from tests.integration.servicekit.service import SERVICE, Servicer, method
from tests.waiting import eventually

# A generated service that is there anyway stands for one of ours.
HEALTH_SERVICE = "grpc.health.v1.Health"
HEALTH_METHODS = {
    "/grpc.health.v1.Health/Check": MethodPolicy(default=1.0, cap=5.0, exempt=True),
    "/grpc.health.v1.Health/List": MethodPolicy(default=1.0, cap=5.0, exempt=True),
    "/grpc.health.v1.Health/Watch": MethodPolicy(default=1.0, cap=5.0, kind=Kind.STREAM, exempt=True),
}
METHODS = {
    method("unary_unary"): MethodPolicy(default=5.0, cap=10.0),
    method("unary_stream_writer"): MethodPolicy(default=None, cap=60.0, kind=Kind.STREAM, resumable=True),
}
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def hang(_context: object) -> bytes:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


@asynccontextmanager
async def running(**settings: Any) -> AsyncIterator[tuple[Server, Servicer, grpc.aio.Channel]]:
    server = Server(ServerSettings(**settings), METHODS, Terms(drain=Drain()))
    servicer = Servicer({b"hang": hang})
    server._server.add_generic_rpc_handlers([servicer.handlers()])
    server.health.add(SERVICE)
    async with (
        server.serving({"database": "none"}),
        grpc.aio.insecure_channel(server.address, options=client_options()) as channel,
    ):
        yield server, servicer, channel


def stub(channel: grpc.aio.Channel) -> Any:
    return health_pb2_grpc.HealthStub(channel)


async def status_of(channel: grpc.aio.Channel, service: str) -> int:
    answer = await stub(channel).Check(health_pb2.HealthCheckRequest(service=service), timeout=5.0)
    status: int = answer.status
    return status


async def test_a_server_is_alive_from_the_start_and_ready_when_told() -> None:
    async with running() as (server, _, channel):
        before = [await status_of(channel, name) for name in ("", SERVICE, "readiness", "liveness")]
        server.health.set_ready(True)
        after = [await status_of(channel, name) for name in ("", SERVICE, "readiness", "liveness")]
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await status_of(channel, "no.such.Service")

    assert [NOT_SERVING, NOT_SERVING, NOT_SERVING, SERVING] == before
    assert [SERVING] * 4 == after
    assert grpc.StatusCode.NOT_FOUND is unknown.value.code()


async def test_watchers_are_told_of_every_change_and_of_the_end() -> None:
    async with running() as (server, _, channel):
        watch = stub(channel).Watch(health_pb2.HealthCheckRequest(service=SERVICE))
        assert NOT_SERVING == (await watch.read()).status
        server.health.set_ready(True)
        assert SERVING == (await watch.read()).status
        server.health.close()
        assert NOT_SERVING == (await watch.read()).status
        assert grpc.StatusCode.UNAVAILABLE is await watch.code()


async def test_a_watcher_that_stalls_holds_up_nobody() -> None:
    health = Health()
    blocked = asyncio.Event()

    class Stalled:
        async def write(self, _message: object) -> None:
            blocked.set()
            await asyncio.Event().wait()

    context: Any = Stalled()
    watching = asyncio.create_task(health.Watch(health_pb2.HealthCheckRequest(), context))
    await blocked.wait()

    health.set_ready(True)

    answer = await health.Check(health_pb2.HealthCheckRequest(), context)
    assert SERVING == answer.status
    watching.cancel()


async def test_readiness_follows_its_check() -> None:
    health, stop, database = Health(), asyncio.Event(), asyncio.Event()

    async def check() -> bool:
        return database.is_set()

    loop = asyncio.create_task(ReadinessLoop(health, check, interval=0.005).run(stop))
    assert not health.ready
    database.set()
    await eventually(lambda: health.ready)
    database.clear()
    await eventually(lambda: not health.ready)
    stop.set()
    await loop


async def test_a_taken_port_is_an_error_that_names_the_address() -> None:
    async with running() as (server, _, _):
        with pytest.raises(CannotListen, match=f"cannot listen on {server.address}: Address already in use"):
            async with running(listen=server.address):
                raise AssertionError("two servers share one port")


async def test_a_taken_unix_socket_is_an_error_and_a_left_one_is_not(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/server.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(address.removeprefix("unix:"))
    async with running(listen=address) as (_, _, channel):
        assert SERVING == await status_of(channel, "liveness")
        with pytest.raises(CannotListen, match="Address already in use"):
            async with running(listen=address):
                raise AssertionError("two servers share one socket")


@pytest.mark.parametrize("address", ["50051", "localhost", "127.0.0.1:http", "127.0.0.1:70000", ":50051"])
async def test_a_malformed_address_is_an_error_that_says_what_is_wanted(address: str) -> None:
    with pytest.raises(CannotListen, match="must be host:port or unix:/path"):
        bind(grpc.aio.server(), address)


async def test_an_address_of_another_machine_is_an_error_that_says_so() -> None:
    with pytest.raises(CannotListen, match=r"192\.0\.2\.1:0: Cannot assign requested address"):
        async with running(listen="192.0.2.1:0", insecure=True):
            raise AssertionError("unreachable")


async def test_the_start_line_tells_the_real_addresses_and_what_the_server_runs_on() -> None:
    with structlog.testing.capture_logs() as logs:
        async with running(admin_listen="127.0.0.1:0") as (server, _, _):
            pass

    (line,) = [entry for entry in logs if entry["event"] == "serving"]
    assert (server.address, server.admin_address) == (line["address"], line["admin"])
    assert not server.address.endswith(":0")
    assert "none" == line["database"]


async def test_channelz_answers_on_its_own_loopback_port_only() -> None:
    async with running(admin_listen="127.0.0.1:0") as (server, _, channel):
        assert server.admin_address is not None
        request = channelz_pb2.GetServersRequest()
        async with grpc.aio.insecure_channel(server.admin_address) as admin:
            servers = await _channelz(admin).GetServers(request, timeout=5.0)
            assert len(servers.server) >= 1
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await _channelz(channel).GetServers(request, timeout=5.0)

    assert grpc.StatusCode.UNIMPLEMENTED is refused.value.code()


def _channelz(channel: Any) -> Any:
    return channelz_pb2_grpc.ChannelzStub(channel)


async def test_channelz_is_refused_on_an_address_that_others_reach() -> None:
    with pytest.raises(ValidationError, match="loopback"):
        async with running(admin_listen="0.0.0.0:0"):
            raise AssertionError("unreachable")


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_reflection_lists_the_services_under_both_of_its_names(version: str) -> None:
    async with running() as (_, _, channel):
        names = await _reflect(channel, version)

    assert "grpc.health.v1.Health" in names


async def _reflect(channel: grpc.aio.Channel, version: str) -> list[str]:
    call: Any = channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    answers = call(iter([reflection_pb2.ServerReflectionRequest(list_services="")]), timeout=5.0)
    return [service.name async for answer in answers for service in answer.list_services_response.service]


async def test_reflection_can_be_left_out() -> None:
    async with running(reflection=False) as (_, _, channel):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await _reflect(channel, "v1alpha")

    assert grpc.StatusCode.UNIMPLEMENTED is refused.value.code()


async def test_grpcurl_lists_services_and_reads_health(tmp_path: Path) -> None:
    grpcurl = Path(sys.executable).parent / "grpcurl"
    async with running() as (server, _, _):
        listed = await _run(grpcurl, "-plaintext", server.address, "list")
        checked = await _run(
            grpcurl,
            "-plaintext",
            "-d",
            '{"service": "liveness"}',
            server.address,
            "grpc.health.v1.Health/Check",
        )

    assert "grpc.health.v1.Health" in listed
    assert '"status": "SERVING"' in checked


async def _run(*command: object) -> str:
    process = await asyncio.create_subprocess_exec(
        *map(str, command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    output, _ = await process.communicate()
    assert 0 == process.returncode, output.decode()
    return output.decode()


async def test_a_service_is_added_only_with_a_policy_of_the_right_kind_for_every_method() -> None:
    settings, terms = ServerSettings(), Terms()
    register = health_pb2_grpc.add_HealthServicer_to_server

    with pytest.raises(LookupError, match="Health/Check needs a MethodPolicy of kind unary"):
        Server(settings, {}, terms).add(HEALTH_SERVICE, register, Health())
    unary = {**HEALTH_METHODS, "/grpc.health.v1.Health/Watch": MethodPolicy(default=1.0, cap=1.0)}
    with pytest.raises(LookupError, match="Health/Watch needs a MethodPolicy of kind stream"):
        Server(settings, unary, terms).add(HEALTH_SERVICE, register, Health())
    Server(settings, HEALTH_METHODS, terms).add(HEALTH_SERVICE, register, Health())


async def test_an_idle_server_ends_at_once_in_spite_of_open_exempt_streams() -> None:
    async with running(drain_grace=30.0) as (server, _, channel):
        watch = stub(channel).Watch(health_pb2.HealthCheckRequest())
        await watch.read()
        reflect: Any = reflection_pb2_grpc.ServerReflectionStub(channel)  # type: ignore[arg-type] # knows no aio
        open_stream = reflect.ServerReflectionInfo()
        await open_stream.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        await open_stream.read()

        async with asyncio.timeout(5.0):
            await server.drain()


async def test_at_the_end_streams_resume_elsewhere_and_late_calls_are_told_that_it_drains() -> None:
    async with running(drain_grace=0.5) as (server, servicer, channel):
        stream: Any = channel.unary_stream(method("unary_stream_writer"))
        unary: Any = channel.unary_unary(method("unary_unary"))
        watching, waiting = stream(b"hang"), unary(b"hang")
        await eventually(lambda: 2 == len(servicer.served_in))
        assert b"first" == await watching.read()

        await server.drain()

        assert (grpc.StatusCode.UNAVAILABLE, "RESUME") == (await watching.code(), await _reason(watching))
        assert (grpc.StatusCode.UNAVAILABLE, "DRAINING") == (await waiting.code(), await _reason(waiting))


async def _reason(call: Any) -> str:
    for key, value in await call.trailing_metadata():
        if key == "grpc-status-details-bin":
            return "RESUME" if b"RESUME" in value else "DRAINING" if b"DRAINING" in value else "?"
    return ""


async def test_a_message_above_the_limit_is_refused() -> None:
    async with running(max_request_bytes=1000) as (_, _, channel):
        unary: Any = channel.unary_unary(method("unary_unary"))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await unary(b"x" * 1001, timeout=5.0)

    assert grpc.StatusCode.RESOURCE_EXHAUSTED is refused.value.code()


def test_a_client_never_pings_faster_than_a_server_allows() -> None:
    client, server = dict(client_options()), dict(server_options(ServerSettings()))

    least = server["grpc.http2.min_ping_interval_without_data_ms"]
    assert client["grpc.keepalive_time_ms"] >= 2 * least


def test_core_never_ends_a_stream_that_may_still_last() -> None:
    options = dict(server_options(ServerSettings(max_connection_age=60.0, max_stream_age=300.0)))

    assert 60_000 == options["grpc.max_connection_age_ms"]
    assert options["grpc.max_connection_age_grace_ms"] > 300_000
