"""PostgreSQL over TLS, as the DSN says: checked to the name, cancels included, and never in the clear."""

import ssl
from typing import Any

import pytest

from budget.core import Budget
from budget.errors import BudgetError, DatabaseUnavailable
from budget.policy import Policy
from budget.postgres import Database
from tests.certificates import Authority
from tests.postgres import TestDatabase
from tests.tls_postgres import TlsFront, tls_in_front_of

READ = Policy(dependency="postgres", method="read", limit=5.0)
SHORT = Policy(dependency="postgres", method="sleep", limit=0.2)


def context_of(authority: Authority, *names: str) -> ssl.SSLContext:
    certificate, key = authority.pair("postgres", *names)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context


async def opened(front: TlsFront, authority: Authority, **options: Any) -> Database:
    dsn = front.dsn(sslmode="verify-full", sslrootcert=authority.file, **options)
    return await Database.open(dsn, budget=Budget.for_work(5.0), size=1, application_name="test")


async def test_statements_and_their_cancels_go_over_tls(database: TestDatabase, authority: Authority) -> None:
    async with tls_in_front_of(database.owner, context_of(authority)) as front:
        pool = await opened(front, authority)
        assert 7 == await pool.fetchval(Budget.for_work(5.0), READ, "SELECT 7")
        with pytest.raises(BudgetError):
            await pool.fetchval(Budget.for_work(5.0), SHORT, "SELECT pg_sleep(20)")
        # The same connection: PostgreSQL heard the cancel, which came over a connection of its own.
        assert 8 == await pool.fetchval(Budget.for_work(2.0), READ, "SELECT 8")
        await pool.close(Budget.for_work(2.0))

    assert (2, 0) == (front.over_tls, front.in_the_clear)


@pytest.mark.parametrize("wrong", ["name", "authority"])
async def test_a_server_that_cannot_be_trusted_is_not_used(
    wrong: str, database: TestDatabase, authority: Authority, other: Authority
) -> None:
    context = context_of(other) if wrong == "authority" else context_of(authority, "elsewhere.example")
    async with tls_in_front_of(database.owner, context) as front:
        with pytest.raises(DatabaseUnavailable) as refused:
            await opened(front, authority)

    assert isinstance(refused.value.__cause__, ssl.SSLCertVerificationError)


async def test_a_server_that_demands_a_certificate_is_shown_that_of_the_dsn(
    database: TestDatabase, authority: Authority
) -> None:
    context = context_of(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.file)
    certificate, key = authority.pair("client", "jobs.example")
    async with tls_in_front_of(database.owner, context) as front:
        pool = await opened(front, authority, sslcert=certificate, sslkey=key)
        assert 7 == await pool.fetchval(Budget.for_work(5.0), READ, "SELECT 7")
        await pool.close(Budget.for_work(2.0))


async def test_authorities_are_read_again_for_every_connection(
    database: TestDatabase, authority: Authority, other: Authority
) -> None:
    trusted = authority.file
    async with tls_in_front_of(database.owner, context_of(other)) as front:
        dsn = front.dsn(sslmode="verify-full", sslrootcert=trusted)
        pool = Database(dsn, size=1, application_name="test")
        with pytest.raises(DatabaseUnavailable):
            await pool.connect(Budget.for_work(5.0))
        trusted.write_bytes(other.pem)
        await pool.connect(Budget.for_work(5.0))
        await pool.close(Budget.for_work(2.0))
