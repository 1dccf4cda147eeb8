"""TLS over real sockets: who gets in, and what changes while a server runs."""

import asyncio

import grpc
import pytest
import structlog
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from servicekit.certificates import PEER, SERVER, Certificates
from servicekit.channels import client_options
from servicekit.listen import CannotListen
from servicekit.server import Server
from tests.certificates import Authority
from tests.integration.servicekit.metrics import counted
from tests.integration.servicekit.secure_server import ask, begin, port_of, secure, serving
from tests.waiting import eventually
from transport.files import TlsFiles

QUICKLY = 0.01


async def refusal(address: str | None, credentials: grpc.ChannelCredentials | None) -> str:
    """The code of a call that has to fail."""
    if credentials is None:
        channel = grpc.aio.insecure_channel(f"localhost:{port_of(address)}", options=client_options())
    else:
        channel = secure(address, credentials)
    async with channel:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await ask(channel)
    return failed.value.code().name


async def test_a_server_with_a_certificate_speaks_tls_alone(authority: Authority, other: Authority) -> None:
    async with (
        serving(**authority.server()) as server,
        secure(server.address, authority.credentials()) as channel,
    ):
        assert b"nobody" == await ask(channel)
        assert "UNAVAILABLE" == await refusal(server.address, None)
        assert "UNAVAILABLE" == await refusal(server.address, other.credentials())


async def test_a_certificate_for_another_name_is_not_believed(authority: Authority) -> None:
    async with serving(**authority.server("server", "elsewhere.example")) as server:
        assert "UNAVAILABLE" == await refusal(server.address, authority.credentials())


async def test_where_certificates_are_demanded_only_those_of_the_authority_get_in(
    authority: Authority, other: Authority
) -> None:
    client = authority.issue("worker-1.example")
    settings = {**authority.server(), "tls_client_ca_file": authority.file}
    async with (
        serving(**settings) as server,
        secure(server.address, authority.credentials(client)) as channel,
    ):
        assert b"worker-1.example" == await ask(channel)
        assert "UNAVAILABLE" == await refusal(server.address, authority.credentials())
        stranger = authority.credentials(other.issue("worker-1.example"))
        assert "UNAVAILABLE" == await refusal(server.address, stranger)


async def test_an_expired_client_certificate_does_not_get_in(authority: Authority) -> None:
    settings = {**authority.server(), "tls_client_ca_file": authority.file}
    async with serving(**settings) as server:
        expired = authority.credentials(authority.issue("late.example", expired=True))

        assert "UNAVAILABLE" == await refusal(server.address, expired)


async def test_one_server_can_demand_certificates_at_one_address_and_none_at_another(
    authority: Authority,
) -> None:
    settings = {
        **authority.server(),
        "tls_client_ca_file": authority.file,
        "mtls_listen": "127.0.0.1:0",
    }
    client = authority.credentials(authority.issue("edge.example"))
    async with (
        serving(**settings) as server,
        secure(server.address, authority.credentials()) as anyone,
        secure(server.mtls_address, client) as edge,
    ):
        assert b"nobody" == await ask(anyone)
        assert b"edge.example" == await ask(edge)
        assert "UNAVAILABLE" == await refusal(server.mtls_address, authority.credentials())


async def test_new_connections_see_a_new_certificate_while_old_streams_go_on(
    authority: Authority, other: Authority
) -> None:
    settings, held = {**authority.server(), "tls_reload_interval": QUICKLY}, asyncio.Event()
    async with (
        serving(held=held, **settings) as server,
        secure(server.address, authority.credentials()) as old,
    ):
        stream = begin(old)
        assert b"first" == await stream.read()

        for part, path in zip(("pem", "key"), other.pair("server"), strict=True):
            (authority.folder / f"server.{part}").write_bytes(path.read_bytes())

        async def sees_the_new_one() -> bool:
            async with secure(server.address, other.credentials()) as fresh:
                try:
                    return await ask(fresh) == b"nobody"
                except grpc.aio.AioRpcError:
                    return False

        await eventually(sees_the_new_one, within=5.0)
        assert "UNAVAILABLE" == await refusal(server.address, authority.credentials())
        assert b"nobody" == await ask(old)
        held.set()
        assert b"at the end" == await stream.read()


async def test_the_authorities_of_clients_are_reloaded_too(authority: Authority, other: Authority) -> None:
    settings = {
        **authority.server(),
        "tls_client_ca_file": authority.file,
        "tls_reload_interval": QUICKLY,
    }
    newcomer = authority.credentials(other.issue("new.example"))
    async with serving(**settings) as server:
        assert "UNAVAILABLE" == await refusal(server.address, newcomer)

        authority.file.write_bytes(authority.pem + other.pem)
        await eventually(lambda: len(current(server)) == len(authority.pem + other.pem), within=5.0)

        async with secure(server.address, newcomer) as channel:
            assert b"new.example" == await ask(channel)


def current(server: Server) -> bytes:
    return server.certificates._held[SERVER].current().authorities or b""


async def test_broken_files_leave_the_old_ones_in_use_and_are_told_of(authority: Authority) -> None:
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader]).get_meter("test")
    certificate, key = authority.pair("server")
    certificates = Certificates(
        {SERVER: TlsFiles(certificate=certificate, key=key)}, interval=QUICKLY, meter=meter
    )
    async with (
        serving(certificates, tls_certificate_file=certificate, tls_key_file=key) as server,
        asyncio.TaskGroup() as group,
    ):
        stop = asyncio.Event()
        with structlog.testing.capture_logs() as logs:
            group.create_task(certificates.run(stop))
            key.write_text("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n")
            await eventually(lambda: any("wrong" in line["event"] for line in logs), within=5.0)
        stop.set()

        assert 1 == counted(reader, "hourglass.tls.reloads", hourglass_tls_reload="refused")
        assert [{"key": "holds no private key in PEM"}] == [line["problems"] for line in logs]
        assert "c2VjcmV0" not in str(logs)
        async with secure(server.address, authority.credentials()) as channel:
            assert b"nobody" == await ask(channel)


async def test_the_days_that_are_left_are_a_metric(authority: Authority) -> None:
    reader = InMemoryMetricReader()
    certificate, key = authority.pair("server")
    Certificates(
        {SERVER: TlsFiles(certificate=certificate, key=key), PEER: TlsFiles(authorities=authority.file)},
        interval=1.0,
        meter=MeterProvider([reader]).get_meter("test"),
    )

    name = "hourglass.tls.certificate.remaining"
    assert counted(reader, name, hourglass_tls_end="server", hourglass_tls_file="certificate") > 1
    assert counted(reader, name, hourglass_tls_end="peer", hourglass_tls_file="authorities") > 1
    assert 0 == counted(reader, name, hourglass_tls_file="key")


async def test_a_channel_shows_a_new_certificate_to_the_next_connection_and_keeps_its_streams(
    authority: Authority,
) -> None:
    settings = {**authority.server(), "tls_client_ca_file": authority.file}
    certificate, key = authority.pair("peer", "before.example")
    files = TlsFiles(certificate=certificate, key=key, authorities=authority.file)
    certificates, held = Certificates({PEER: files}, interval=QUICKLY), asyncio.Event()
    async with (
        serving(held=held, **settings) as server,
        certificates.peer_channel(f"localhost:{port_of(server.address)}", client_options()) as channel,
    ):
        assert b"before.example" == await ask(channel)
        stream = begin(channel)
        assert b"first" == await stream.read()

        authority.pair("peer", "after.example")

        async def shows_the_new_one() -> bool:
            return await ask(channel) == b"after.example"

        await eventually(shows_the_new_one, within=5.0)
        held.set()
        assert b"at the end" == await stream.read()


async def test_nothing_listens_beyond_loopback_without_tls_and_authentication(authority: Authority) -> None:
    everywhere = "0.0.0.0:0"
    for settings in ({}, authority.server()):
        with pytest.raises(CannotListen, match="or --insecure"):
            async with serving(listen=everywhere, **settings):
                pass

    async with serving(listen=everywhere, **authority.server(), tls_client_ca_file=authority.file):
        pass


async def test_an_open_address_is_told_of_loudly() -> None:
    with structlog.testing.capture_logs() as logs:
        async with serving(listen="0.0.0.0:0", insecure=True):
            pass

    assert ["warning"] == [line["log_level"] for line in logs if line["event"].startswith("INSECURE")]
