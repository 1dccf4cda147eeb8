"""The store's SQL: one statement a file, each headed by what it does and what it locks."""

from functools import cache
from importlib.resources import files


@cache
def statement(name: str) -> str:
    """The text of `name`.sql. Raises FileNotFoundError when there is none."""
    return files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
