"""The system under torture: its processes, its Postgres, and the ways between them."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budget.core import Budget
from hourglass.jobs.v1.admin_service_pb2_grpc import AdminServiceStub
from hourglass.jobs.v1.jobs_service_pb2_grpc import JobServiceStub
from launcher import components, postgres
from launcher.components import SIMULATED
from launcher.postgres import RunningPostgres
from launcher.processes import Child, Command
from launcher.roles import READONLY, REQUEST, WORKER, role_dsn
from migrations.runner import migrate
from tests.postgres import fast_folder
from tests.proxied import through
from tests.torture import settings
from tests.torture.member import START_LIMIT, STOP_LIMIT, Member
from tests.torture.plan import PRICING, SERVERS, WORKERS
from tests.torture.tally import Tally
from tests.torture.wire import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """How one process reaches Postgres, in all its lives: for data, and for LISTEN."""

    data: Wire
    wake_ups: Wire


class Stage:
    """Everything that runs. Made by `staged`."""

    def __init__(self, folder: Path, logs: Path, tally: Tally) -> None:
        self.members: dict[str, Member] = {}
        self.ways: dict[str, Ways] = {}
        self.server: RunningPostgres
        self.provider: Child
        self._restarting: asyncio.Task[None] | None = None
        self._folder = folder
        self._logs = logs
        self._tally = tally

    @property
    def owner_dsn(self) -> str:
        """Past every proxy, as the owner."""
        return self.server.dsn

    @property
    def servers(self) -> Sequence[Member]:
        """The job services."""
        return [self.members[name] for name in SERVERS]

    def jobs(self, server: int) -> Any:
        """A stub of one of the job services. Raises Away."""
        return JobServiceStub(self.servers[server % len(SERVERS)].channel)

    def admin(self, server: int) -> Any:
        """A stub of the operators' service there. Raises Away."""
        return AdminServiceStub(self.servers[server % len(SERVERS)].channel)

    async def start(self, stack: AsyncExitStack) -> None:
        """Start everything."""
        self.server = await asyncio.to_thread(self._start_postgres)
        stack.push_async_callback(self._stop_postgres)
        await migrate(self.server.dsn, budget=Budget.for_work(START_LIMIT))
        self.provider = await self._child(components.model_server(SIMULATED), stack)
        environment = {"DRAIN_GRACE": settings.DRAIN_GRACE}
        pricing = self._add(components.pricing_service(PRICING, environment), stack, fixed_port=True)
        await pricing.start()
        for name in WORKERS + SERVERS:
            self.ways[name] = await self._ways(stack)
            self._add(self._worker(name) if name in WORKERS else self._job_service(name), stack)
        await asyncio.gather(*(self.members[name].start() for name in WORKERS + SERVERS))

    async def restart_postgres(self, *, down: float) -> None:
        """Immediate stop, as in a crash, and a new start after a while."""
        self._restarting = asyncio.create_task(self._restart_postgres(down), name="restart of Postgres")
        await asyncio.shield(self._restarting)

    async def _restart_postgres(self, down: float) -> None:
        await asyncio.to_thread(
            self.server.binaries.run,
            "pg_ctl",
            "stop",
            "--mode=immediate",
            f"--pgdata={self.server.data_directory}",
            budget=Budget.for_work(STOP_LIMIT),
        )
        await asyncio.sleep(down)
        self.server = await asyncio.to_thread(self._start_postgres)

    async def terminate(self) -> None:
        """End all members in good order; those that do not end with 0 break a promise."""
        await asyncio.gather(*(member.terminate() for member in self.members.values()))

    def _start_postgres(self) -> RunningPostgres:
        return postgres.start(
            self._folder / "data", budget=Budget.for_work(START_LIMIT), settings=settings.POSTGRES
        )

    async def _stop_postgres(self) -> None:
        if self._restarting is not None:  # a thread cannot be cancelled
            await asyncio.wait({self._restarting})
        await asyncio.to_thread(postgres.stop, self.server.data_directory, budget=Budget.for_work(STOP_LIMIT))

    async def _child(self, command: Command, stack: AsyncExitStack) -> Child:
        child = await Child.start(command, logs=self._logs, budget=Budget.for_work(START_LIMIT))
        stack.push_async_callback(child.kill)
        return child

    def _add(self, command: Command, stack: AsyncExitStack, *, fixed_port: bool = False) -> Member:
        member = Member(command, self._logs, self._tally, fixed_port=fixed_port)
        stack.push_async_callback(member.close)
        self.members[member.name] = member
        return member

    async def _ways(self, stack: AsyncExitStack) -> Ways:
        socket = self.server.socket_directory / f".s.PGSQL.{postgres.PORT}"
        return Ways(
            data=await stack.enter_async_context(Wire.to_server(socket)),
            wake_ups=await stack.enter_async_context(Wire.to_server(socket)),
        )

    def _worker(self, name: str) -> Command:
        models, ways = {SIMULATED: self.provider.address}, self.ways[name]
        environment: Mapping[str, str] = {
            **settings.WORKER,
            "ROUTES": settings.routes(components.routes(models)),
            "DIRECT_DATABASE_URL": through(ways.wake_ups, self._role(WORKER)),
        }
        database = through(ways.data, self._role(WORKER))
        return components.worker(name, environment, database=database, models=models)

    def _job_service(self, name: str) -> Command:
        ways = self.ways[name]
        environment = {
            **settings.JOBS,
            "LISTEN_DATABASE_URL": through(ways.wake_ups, self._role(REQUEST)),
            "READONLY_DATABASE_URL": through(ways.data, self._role(READONLY)),
        }
        return components.jobs_service(
            name,
            environment,
            database=through(ways.data, self._role(REQUEST)),
            reaper_database=through(ways.data, self._role(WORKER)),
            pricing=self.members[PRICING].address,
        )

    def _role(self, role: str) -> str:
        return role_dsn(self.server.dsn, role)


@asynccontextmanager
async def staged(logs: Path, tally: Tally) -> AsyncIterator[Stage]:
    """The system, running, until the end of the block; nothing of it is left then."""
    folder = _own_folder()
    tally.tell(f"PostgreSQL has its data in {folder}")
    try:
        async with AsyncExitStack() as stack:
            stage = Stage(folder, logs, tally)
            await stage.start(stack)
            yield stage
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _own_folder() -> Path:
    """Which the server's user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="hourglass-torture-", dir=fast_folder()))
    folder.chmod(0o711)
    return folder
