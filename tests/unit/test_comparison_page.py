"""docs/comparison.md points at what is there."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "comparison.md"
TEXT = PAGE.read_text()
LINKS = re.findall(r"\[[^\]]+\]\(([^)\s]+)\)", TEXT)


def test_every_file_that_the_page_links_to_is_there() -> None:
    files = [link for link in LINKS if not link.startswith(("https://", "#"))]
    assert files
    assert [] == [link for link in files if not (PAGE.parent / link).exists()]


def test_every_system_of_the_tables_has_its_sources() -> None:
    headings = {
        title.lower().replace(" ", "-") for title in re.findall(r"^### (.+)$", TEXT, flags=re.MULTILINE)
    }
    jumps = {link.removeprefix("#") for link in LINKS if link.startswith("#")}
    assert jumps
    assert set() == jumps - headings


def test_every_test_that_the_page_names_stands_in_the_file_before_it() -> None:
    missing = []
    for row in TEXT.splitlines():
        for path, names in re.findall(r"\]\((\.\./tests/\S+\.py)\): ((?:`test_\w+`(?:, )?)+)", row):
            defined = (PAGE.parent / path).read_text()
            missing += [name for name in re.findall(r"test_\w+", names) if f"def {name}(" not in defined]
    assert [] == missing
    assert TEXT.count("`test_") == len(re.findall(r"(?:\.py\): |, )`test_", TEXT))
