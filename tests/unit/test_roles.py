"""How the services' DSNs follow from the owner's."""

from urllib.parse import urlsplit

import pytest

from launcher.roles import REQUEST, WORKER, role_dsn, role_password


def test_a_role_of_the_embedded_server_only_changes_the_user() -> None:
    owner = "postgresql://hourglass@/postgres?host=/tmp/a folder/pg&port=5432"

    dsn = role_dsn(owner, WORKER)

    assert "postgresql://hourglass_worker@/postgres?host=/tmp/a+folder/pg&port=5432" == dsn


def test_a_role_keeps_servers_database_and_options() -> None:
    dsn = role_dsn("postgres://owner:secret@one:5432,two:5433/jobs?sslmode=verify-full", REQUEST)

    parts = urlsplit(dsn)
    assert ("one:5432,two:5433", "/jobs", "sslmode=verify-full") == (
        parts.netloc.rpartition("@")[2],
        parts.path,
        parts.query,
    )
    assert "secret" not in dsn


@pytest.mark.parametrize(
    "owner",
    ["postgres://owner:s%40crt@db/jobs", "postgres://db/jobs?user=owner&password=s%40crt"],
)
def test_launchers_with_the_same_owner_password_agree(owner: str) -> None:
    expected = role_password("postgresql://somebody:s%40crt@elsewhere/", WORKER)

    assert expected == role_password(owner, WORKER)
    assert expected is not None
    assert f"{WORKER}:{expected}@" in role_dsn(owner, WORKER)
    assert "password=" not in role_dsn(owner, WORKER)


def test_roles_have_passwords_of_their_own() -> None:
    owner = "postgres://owner:secret@db/jobs"

    assert 3 == len({role_password(owner, REQUEST), role_password(owner, WORKER), "secret"})
