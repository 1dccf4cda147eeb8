"""What must hold at every commit: one statement a file, each answering what breaks it.

A statement takes a page, answers (tenant_id, subject, description) and locks nothing. It is one statement, so
it sees one moment: while others write, it finds what they broke, never what they are about to finish.
"""

from functools import cache
from importlib.resources import files


@cache
def invariant_sql(name: str) -> str:
    """The text of `name`.sql. Raises FileNotFoundError when there is none."""
    return files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
