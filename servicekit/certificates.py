"""The TLS files of a process: credentials that follow them, told of in logs and metrics."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

import grpc
import structlog
from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Counter, Observation

from servicekit.lifecycle import every
from servicekit.peer_settings import PeerSettings
from servicekit.settings import ServerSettings
from transport.channels import FollowingAioChannel, Options
from transport.files import Contents, TlsFiles, WrongFiles
from transport.held import HeldFiles
from transport.server_credentials import server_credentials

SERVER: Final = "server"
PEER: Final = "peer"
_DAY: Final = 86_400.0
_log = structlog.stdlib.get_logger("hourglass.tls")


class Certificates:
    """Whatever TLS files a process has, by the end of a connection that they are for."""

    def __init__(
        self, files: Mapping[str, TlsFiles | None], *, interval: float, meter: metrics.Meter | None = None
    ) -> None:
        """interval: seconds between two looks at the files. Raises WrongFiles."""
        self._interval = interval
        meter = meter or metrics.get_meter("hourglass.servicekit")
        reloads = meter.create_counter(
            "hourglass.tls.reloads",
            unit="{reload}",
            description="Changed certificate files, by whether they could be used",
        )
        self._held = {
            end: HeldFiles(some, watcher=_Telling(end, reloads), interval=interval)
            for end, some in files.items()
            if some is not None
        }
        meter.create_observable_gauge(
            "hourglass.tls.certificate.remaining",
            [self._remaining],
            unit="d",
            description="Time until the certificates that are in use expire; below 0 once they have",
        )

    @classmethod
    def of(cls, settings: ServerSettings) -> "Certificates":
        """Those that the settings name."""
        peer = settings.peer_tls_files if isinstance(settings, PeerSettings) else None
        return cls({SERVER: settings.tls_files, PEER: peer}, interval=settings.tls_reload_interval)

    def server_credentials(self, *, client_certificates: bool) -> grpc.ServerCredentials | None:
        """For one port; None: it is served in the clear."""
        held = self._held.get(SERVER)
        return None if held is None else server_credentials(held, client_certificates=client_certificates)

    def peer_channel(self, target: str, options: Options) -> grpc.aio.Channel:
        """A channel to another process of ours: over TLS when there are files for that."""
        held = self._held.get(PEER)
        if held is None:
            return grpc.aio.insecure_channel(target, options=options)
        return FollowingAioChannel(target, held, options)

    async def run(self, stop: asyncio.Event) -> None:
        """Looks at the files until `stop` is set: what is wrong with them is told before it is needed."""
        await every(self._interval, self._look, stop)

    async def _look(self) -> None:
        for held in self._held.values():
            await asyncio.to_thread(held.current)

    def _remaining(self, _: CallbackOptions) -> Iterable[Observation]:
        for end, held in self._held.items():
            for part, seconds in held.remaining().items():
                yield Observation(
                    seconds / _DAY, {"hourglass.tls.end": end, "hourglass.tls.file": part.value}
                )


class _Telling:
    """Writes down what became of changed files. Called from threads of core, too."""

    def __init__(self, end: str, reloads: Counter) -> None:
        self._end = end
        self._reloads = reloads

    def took(self, contents: Contents) -> None:
        expiries = {part.value: end.isoformat() for part, end in contents.expiries.items()}
        _log.info("certificate files were reloaded", end=self._end, expire=expiries)
        self._count("taken")

    def refused(self, error: WrongFiles) -> None:
        problems = {part.value: problem for part, problem in error.problems.items()}
        _log.warning(
            "changed certificate files are wrong: those before stay in use", end=self._end, problems=problems
        )
        self._count("refused")

    def _count(self, result: str) -> None:
        self._reloads.add(1, {"hourglass.tls.end": self._end, "hourglass.tls.reload": result})
