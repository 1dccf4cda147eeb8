"""docs/invariants.md lists every invariant as its statement says it."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

from jobs_store.invariants.page import as_markdown
from jobs_store.invariants.registry import INVARIANTS

LOCKING = re.compile(r"\bFOR (NO KEY )?(UPDATE|SHARE)\b|\b(UPDATE|DELETE FROM|INSERT INTO) hourglass\b")
PAGE = Path(__file__).parents[3] / "docs" / "invariants.md"


def test_the_page_is_up_to_date() -> None:
    assert as_markdown() == PAGE.read_text(), (
        "run `python -m jobs_store.invariants.page > docs/invariants.md`"
    )


def test_every_statement_is_an_invariant() -> None:
    stored = {path.name for path in files("jobs_store.invariants").iterdir() if path.name.endswith(".sql")}
    assert stored == {f"{each.file}.sql" for each in INVARIANTS.values()}


def test_every_invariant_is_listed_once() -> None:
    listed = [line.split("`")[1] for line in as_markdown().splitlines() if line.startswith("| `")]
    assert sorted(INVARIANTS) == sorted(listed)


@pytest.mark.parametrize("name", INVARIANTS)
def test_a_statement_begins_with_what_holds_and_takes_no_lock(name: str) -> None:
    invariant = INVARIANTS[name]
    assert invariant.promise.endswith(".")
    assert not LOCKING.search(invariant.sql)
