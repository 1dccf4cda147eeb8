"""The SQL of the bench, one statement a file; those that are several are scripts without arguments."""

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@cache
def statement(name: str) -> str:
    """The text of `name`.sql."""
    return (_FOLDER / f"{name}.sql").read_text()
