"""Both services through PgBouncer in transaction mode. Collected where there is one (tests/conftest.py)."""

import pytest

from tests.bouncer import SERVER_CONNECTIONS, bouncer
from tests.postgres import TestDatabase, TestServer
from tests.scenarios.everyday import everything_works
from tests.scenarios.runs import running


@pytest.mark.scenario("O4")
async def test_through_pgbouncer_in_transaction_mode_everything_works(
    postgres_server: TestServer, database: TestDatabase, simulated: str
) -> None:
    """Every statement may meet another session than the last one; only LISTEN goes to the server itself."""
    async with (
        bouncer(database, postgres_server.running.binaries) as pooler,
        running(
            database,
            simulated,
            jobs={
                "database_url": pooler.through(database.request),
                "worker_database_url": pooler.through(database.worker),
                "readonly_database_url": pooler.through(database.readonly),
                "listen_database_url": database.request,
                "statement_cache_size": 0,
                "reap_interval": 0.5,
                "reap_wait": 0.0,
            },
            database_url=pooler.through(database.worker),
            direct_database_url=database.worker,
            statement_cache_size=0,
        ) as runs,
    ):
        await everything_works(runs)
        sessions = await runs.jobs.sql(
            "SELECT usename, count(*) AS number FROM pg_stat_activity "
            "WHERE datname = current_database() AND usename <> 'hourglass' GROUP BY usename"
        )
        # Those of the pooler, the listeners and the notifier; the pools alone hold more.
        assert max(row["number"] for row in sessions) <= SERVER_CONNECTIONS + 3
