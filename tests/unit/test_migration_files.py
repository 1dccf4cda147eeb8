"""What a folder of migrations has to look like."""

from pathlib import Path

import pytest

from migrations.errors import MigrationFilesInvalid
from migrations.files import load


def write(folder: Path, **files: str) -> Path:
    for name, content in files.items():
        (folder / f"{name.lstrip('_')}.sql").write_text(content)
    return folder


def test_files_are_read_in_order_of_their_numbers(tmp_path: Path) -> None:
    found = load(write(tmp_path, _0002_second="SELECT 2", _0001_first="SELECT 1"))

    assert ["0001_first", "0002_second"] == [str(migration) for migration in found]


@pytest.mark.parametrize(
    ("names", "named"),
    [
        (("_0001_a", "_0003_c"), "0003_c"),
        (("_0001_a", "_0001_b"), "0001_b"),
        (("_0000_a",), "0000_a"),
        (("_1_a",), "1_a"),
        (("_0001_A",), "0001_A"),
    ],
)
def test_a_wrong_name_or_number_is_named(tmp_path: Path, names: tuple[str, ...], named: str) -> None:
    with pytest.raises(MigrationFilesInvalid, match=named):
        load(write(tmp_path, **dict.fromkeys(names, "SELECT 1")))


def test_only_the_first_line_takes_a_file_out_of_its_transaction(tmp_path: Path) -> None:
    inside, outside = load(
        write(
            tmp_path,
            _0001_inside="-- a note\n-- migrate: no transaction\nSELECT 1",
            _0002_outside="-- migrate: no transaction\nSELECT 1",
        )
    )

    assert (True, False) == (inside.transactional, outside.transactional)


def test_the_shipped_files_are_in_order() -> None:
    assert load()
