"""A gRPC server of ours: health, reflection, channelz, and an end in good order.

The end: report not ready, settle, refuse new requests and end resumable streams, give the rest the grace,
end what is left while it can still be answered, stop.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self

import grpc
import structlog
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor
from grpc_channelz.v1 import channelz
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from servicekit import health
from servicekit.certificates import Certificates
from servicekit.channels import server_options
from servicekit.health import Health
from servicekit.interceptor import RequestInterceptor
from servicekit.listen import CannotListen, bind, is_loopback, refuse_open_bind
from servicekit.methods import Kind, MethodPolicies
from servicekit.request import Terms
from servicekit.settings import ServerSettings
from servicekit.symbols import Symbols

# Core cancels everything when the grace is over and answers for us then; this much before, we do it.
_ANSWER_TIME: Final = 0.25
_REFLECTION_V1: Final = "grpc.reflection.v1.ServerReflection"


class Server:
    """One server, from `add` over `serving` to its end."""

    def __init__(
        self,
        settings: ServerSettings,
        methods: MethodPolicies,
        terms: Terms,
        *,
        certificates: Certificates | None = None,
    ) -> None:
        """certificates: those of the process, when it has others, too. Raises WrongFiles."""
        self.health = Health()
        self.address = settings.listen
        self.mtls_address = settings.mtls_listen
        self.admin_address = settings.admin_listen
        self._settings = settings
        self._methods = methods
        self._terms = terms
        self.admission = terms.admission
        self.certificates = certificates or Certificates.of(settings)
        self._services: list[str] = []
        self._log = structlog.stdlib.get_logger("hourglass.server")
        self._interceptor = RequestInterceptor(methods, terms)
        self._server = grpc.aio.server(interceptors=[self._interceptor], options=server_options(settings))
        self._admin: grpc.aio.Server | None = None

    def add(self, service: str, register: Callable[[Any, grpc.aio.Server], None], servicer: object) -> None:
        """Serves a generated service, by its full name, such as `hourglass.jobs.v1.JobService`.

        LookupError when a method of it has no policy, or one of the wrong kind.
        """
        for method in descriptor_pool.Default().FindServiceByName(service).methods:
            self._require_policy(service, method)
        register(servicer, self._server)
        self.health.add(service)
        self._services.append(service)

    def _require_policy(self, service: str, method: MethodDescriptor) -> None:
        name = f"/{service}/{method.name}"
        policy = self._methods.get(name)
        kind = Kind.STREAM if method.server_streaming else Kind.UNARY
        if policy is None or policy.kind is not kind:
            raise LookupError(f"{name} needs a MethodPolicy of kind {kind}")

    @asynccontextmanager
    async def serving(self, runs_on: Mapping[str, str]) -> AsyncIterator[Self]:
        """Serves during its body, then drains. `runs_on` goes into the start-up line: what this process uses.

        The server starts as not ready: `server.health.set_ready(True)` opens it to health checks.
        """
        await self.start(runs_on)
        try:
            yield self
        finally:
            await self.drain()

    async def start(self, runs_on: Mapping[str, str] | None = None) -> None:
        """Binds, starts and says so. CannotListen when an address is taken."""
        self._add_infrastructure(self._server)
        self._bind()
        self._interceptor.address = self.address
        if self._settings.admin_listen is not None:
            self._admin = self._admin_server(self._settings.admin_listen)
            await self._admin.start()
        await self._server.start()
        self._log.info(
            "serving",
            address=self.address,
            mtls_address=self.mtls_address,
            admin=self.admin_address,
            tls=self._settings.tls_files is not None,
            client_certificates=self._settings.demands_client_certificates,
            services=self._services,
            python=sys.version.split()[0],
            grpc=grpc.__version__,
            **(runs_on or {}),
        )

    def _bind(self) -> None:
        settings, certificates = self._settings, self.certificates
        self._refuse_open_bind()
        self.address = bind(
            self._server,
            settings.listen,
            certificates.server_credentials(client_certificates=settings.demands_client_certificates),
        )
        if settings.mtls_listen is not None:
            credentials = certificates.server_credentials(client_certificates=True)
            self.mtls_address = bind(self._server, settings.mtls_listen, credentials)

    def _refuse_open_bind(self) -> None:
        """By what is in force, whatever the settings promise."""
        settings = self._settings
        problem = refuse_open_bind(
            settings.listen,
            authenticated=self._terms.authenticated or settings.demands_client_certificates,
            encrypted=settings.tls_files is not None,
            insecure=False,
        )
        if problem is None:
            return
        if not settings.insecure:
            raise CannotListen(settings.listen, problem)
        self._log.warning(
            "INSECURE: whoever can reach this address reads what goes over it, or is believed without proof",
            address=settings.listen,
            tls=settings.tls_files is not None,
            authenticated=self._terms.authenticated,
        )

    async def drain(self) -> None:
        """Ends the server in good order, once, within settle + drain_grace seconds and a little."""
        if self._terms.drain.stopping:
            return
        drain, grace = self._terms.drain, self._settings.drain_grace
        self.health.set_ready(False)
        await asyncio.sleep(self._settings.settle)
        self._log.info("draining", in_flight=drain.in_flight, grace=grace)
        drain.begin()
        self.health.close()
        stopping = asyncio.create_task(self._server.stop(grace), name="server stop")
        if not await drain.idle(grace - _ANSWER_TIME):
            self._log.warning("the grace is over", in_flight=drain.in_flight)
            drain.cut()
            await drain.idle(_ANSWER_TIME)
        drain.stopping = True
        # A shorter grace replaces the longer one: exempt streams (reflection) would use all of it.
        await self._server.stop(_ANSWER_TIME)
        await stopping
        if self._admin is not None:
            await self._admin.stop(0)
        self._interceptor.close()
        self._log.info("stopped", address=self.address)

    def _add_infrastructure(self, server: grpc.aio.Server) -> None:
        health_pb2_grpc.add_HealthServicer_to_server(self.health, server)
        if self._settings.reflection:
            names = (*self._services, health.SERVICE_NAME, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, server, pool=_symbols())
            server.add_generic_rpc_handlers([_reflection_v1(names)])

    def _admin_server(self, address: str) -> grpc.aio.Server:
        if not is_loopback(address):
            raise CannotListen(
                address, "channelz tells everything; it listens on loopback or a unix socket only"
            )
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        channelz.add_channelz_servicer(server)
        reflection.enable_server_reflection(("grpc.channelz.v1.Channelz", reflection.SERVICE_NAME), server)
        self.admin_address = bind(server, address)
        return server


def _symbols() -> Any:
    """A pool, as far as reflection makes use of one."""
    return Symbols(descriptor_pool.Default())


def _reflection_v1(names: tuple[str, ...]) -> grpc.GenericRpcHandler:
    """Reflection under its v1 name: the messages are the same bytes as those of v1alpha."""
    servicer = reflection.aio.ReflectionServicer(service_names=names, pool=_symbols())
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(_REFLECTION_V1, {"ServerReflectionInfo": handler})
