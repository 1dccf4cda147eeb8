"""The one-page map agrees with what it maps."""

import re
from pathlib import Path

from jobs_store.transitions import TRANSITIONS

PROJECT = Path(__file__).resolve().parent.parent.parent
PAGE = (PROJECT / "docs" / "architecture.md").read_text()


def test_the_drawing_has_the_arrows_of_the_transition_table() -> None:
    drawn = set(re.findall(r"^    (\[\*\]|[A-Z]+) --> ([A-Z]+): ", PAGE, flags=re.MULTILINE))
    assert {(t.source or "[*]", t.target.value) for t in TRANSITIONS} == drawn


def test_every_folder_on_the_map_is_there_and_every_package_is_on_the_map() -> None:
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    mapped = {name for row in rows for name in re.findall(r"`([a-z_]+)/`", row)}
    packages = {path.parent.name for path in PROJECT.glob("*/__init__.py")}
    assert set() == {name for name in mapped if not (PROJECT / name).is_dir()}
    assert set() == packages - mapped


def test_the_files_that_the_page_names_are_there() -> None:
    named = re.findall(r"`([a-z_]+/[a-z_]+\.(?:py|md))`", PAGE)
    assert named
    assert [] == [name for name in named if not (PROJECT / name).exists()]
