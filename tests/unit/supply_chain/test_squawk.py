"""Squawk checks new migrations strictly; what it finds in old ones was reviewed, and stays as it was."""

from pathlib import Path
from typing import Final

import pytest

from tests.rules.squawk import difference, found, main

RULES: Final = {"reviewed": {"prefer-bigint-over-int": ["small", "0001_old"]}}
OLD: Final = {"prefer-bigint-over-int": frozenset({"0001_old"})}


def test_squawk_finds_what_was_reviewed_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(), capsys.readouterr().err


def test_what_is_new_is_told_and_so_is_what_is_gone() -> None:
    assert [] == difference(OLD, RULES)
    assert ["0009_new: ban-drop-column (squawk)"] == difference(
        {**OLD, "ban-drop-column": frozenset({"0009_new"})}, RULES
    )
    (gone,) = difference({}, RULES)
    assert gone.startswith("0001_old: prefer-bigint-over-int is not found any more")


def test_a_migration_may_say_why_a_rule_does_not_matter_to_it(tmp_path: Path) -> None:
    statement = "ALTER TABLE hourglass.jobs DROP COLUMN old;\n"
    (tmp_path / "0001_bad.sql").write_text(statement)
    (tmp_path / "0002_reasoned.sql").write_text(f"-- squawk-ignore ban-drop-column\n{statement}")
    timeouts = {"require-lock-timeout": "", "require-statement-timeout": ""}
    assert {"ban-drop-column": {"0001_bad"}} == found(sorted(tmp_path.glob("*.sql")), timeouts)
