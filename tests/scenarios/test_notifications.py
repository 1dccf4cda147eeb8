"""Notifications never arrive: everything works, by polling."""

import pytest

from tests.postgres import TestDatabase, TestServer
from tests.scenarios.everyday import everything_works
from tests.scenarios.runs import running


@pytest.mark.scenario("O3")
async def test_without_notifications_everything_works_only_later(
    postgres_server: TestServer, database: TestDatabase, simulated: str
) -> None:
    """Both services listen in another database: healthy connections on which nothing is ever heard."""
    async with postgres_server.database(template="template0") as elsewhere:
        deaf = elsewhere.owner
        async with running(
            database,
            simulated,
            jobs={"listen_database_url": deaf, "reap_interval": 0.5, "reap_wait": 0.0},
            direct_database_url=deaf,
            renewal_interval=0.5,
            cut_off=20.0,
            reap_interval=0.5,
        ) as runs:
            await everything_works(runs)
            assert runs.worker.listening
