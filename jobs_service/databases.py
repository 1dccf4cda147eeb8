"""The connections of the job process, by what they are for."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from pydantic import SecretStr

from budget.core import Budget
from budget.postgres import Database
from jobs_service.settings import JobsSettings

APPLICATION: Final = "hourglass-jobs"
CLOSE_LIMIT: Final = 2.0
"""Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Databases:
    """Connections, by what they are for. `reaper` and `overview` work as the worker role; None: nothing is
    reaped here, and operators are not shown all tenants. `verify` works as the read-only role; None: nothing
    is verified here. `identity` looks up API keys; None: nobody calls by one."""

    request: Database
    wakeups: Database
    timer: Database
    reaper: Database | None
    overview: Database | None
    verify: Database | None
    identity: Database | None

    @classmethod
    def of(cls, settings: JobsSettings) -> "Databases":
        """None of them is connected yet."""
        dsn, worker_dsn = settings.database_url, settings.worker_database_url
        readonly_dsn = settings.readonly_database_url
        database = partial(_database, statement_cache_size=settings.statement_cache_size)
        return cls(
            request=database(dsn, "", size=settings.pool_size),
            wakeups=database(dsn, "-wakeups", size=1),
            # Were it to queue behind those who wait, they would all look themselves, and it would queue more.
            timer=database(dsn, "-timer", size=1),
            reaper=None
            if worker_dsn is None
            else database(worker_dsn, "-reaper", size=settings.reaper_pool_size),
            overview=None
            if worker_dsn is None
            else database(worker_dsn, "-overview", size=settings.overview_pool_size),
            verify=None
            if readonly_dsn is None
            else database(readonly_dsn, "-verify", size=settings.readonly_pool_size),
            # Of its own: strangers who try keys hold up nobody who is at work.
            identity=database(dsn, "-identity", size=settings.api_key_pool_size)
            if settings.api_keys
            else None,
        )

    @property
    def by_name(self) -> Mapping[str, Database]:
        """Those that there are."""
        named_here = {
            "request": self.request,
            "wakeups": self.wakeups,
            "timer": self.timer,
            "reaper": self.reaper,
            "overview": self.overview,
            "verify": self.verify,
            "identity": self.identity,
        }
        return {name: database for name, database in named_here.items() if database is not None}

    async def close(self) -> None:
        """Ends every connection."""
        for database in self.by_name.values():
            await database.close(Budget.for_work(CLOSE_LIMIT))


def _database(dsn: SecretStr, suffix: str, *, size: int, statement_cache_size: int) -> Database:
    return Database(
        dsn.get_secret_value(),
        size=size,
        application_name=f"{APPLICATION}{suffix}",
        statement_cache_size=statement_cache_size,
    )
