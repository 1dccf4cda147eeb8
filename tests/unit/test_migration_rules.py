"""A migration adds; what takes away comes a release later, and says so."""

import pytest

from migrations.files import load
from tests.rules.migrations import CONTRACT, contracting

FIRST_SCHEMA = 10
"""Up to here the files make the schema that the first release starts from: nobody runs older code."""


def test_migrations_after_the_first_schema_only_add_unless_they_say_why_not() -> None:
    """So that processes of the release before go on while a deploy rolls, and after it was taken back."""
    later = [migration for migration in load() if migration.version > FIRST_SCHEMA]
    unmarked = {str(step): contracting(step.sql) for step in later if not CONTRACT.search(step.sql)}
    assert {} == {step: found for step, found in unmarked.items() if found}


def test_a_mark_is_only_where_it_is_needed() -> None:
    marked = [migration for migration in load() if CONTRACT.search(migration.sql)]
    assert [] == [str(migration) for migration in marked if not contracting(migration.sql)]


@pytest.mark.parametrize(
    ("what", "sql"),
    [
        ("drops", "DROP TABLE hourglass.a"),
        ("drops", "ALTER TABLE hourglass.a DROP COLUMN b"),
        ("drops", "ALTER TABLE hourglass.a ALTER COLUMN b DROP DEFAULT"),
        ("renames", "ALTER TABLE hourglass.a RENAME COLUMN b TO c"),
        ("changes a type", "ALTER TABLE hourglass.a ALTER COLUMN b TYPE bigint"),
        ("changes a type", "ALTER TABLE hourglass.a ALTER b SET DATA TYPE bigint"),
        ("requires a value", "ALTER TABLE hourglass.a ALTER COLUMN b SET NOT NULL"),
        ("adds a column that must be given", "ALTER TABLE hourglass.a ADD COLUMN b text NOT NULL"),
        (
            "adds a column that must be given",
            "ALTER TABLE a ADD COLUMN b int NOT NULL, ADD COLUMN c int",
        ),
        ("adds a constraint", "ALTER TABLE hourglass.a ADD CONSTRAINT c CHECK (b > 0)"),
        ("makes an old table's values unique", "CREATE UNIQUE INDEX i ON hourglass.a (b)"),
        ("takes a right away", "REVOKE SELECT ON hourglass.a FROM hourglass_worker"),
        ("deletes rows", "DELETE FROM hourglass.a"),
    ],
)
def test_what_takes_away_is_noticed(what: str, sql: str) -> None:
    assert [what] == contracting(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE hourglass.a ADD COLUMN b text",
        "ALTER TABLE hourglass.a ADD COLUMN b jsonb NOT NULL DEFAULT '{}' CONSTRAINT c CHECK (b <> 'null');",
        "CREATE TABLE hourglass.a (b text NOT NULL UNIQUE, c integer REFERENCES hourglass.d)",
        "CREATE INDEX CONCURRENTLY i ON hourglass.a (b)",
        "CREATE FUNCTION f() RETURNS void LANGUAGE sql AS $$ DELETE FROM hourglass.a $$",
        "REVOKE ALL ON FUNCTION hourglass.f() FROM PUBLIC",
        "-- DROP TABLE hourglass.a\nCOMMENT ON TABLE hourglass.a IS 'do not DROP TABLE'",
    ],
)
def test_what_adds_is_let_through(sql: str) -> None:
    assert [] == contracting(sql)
