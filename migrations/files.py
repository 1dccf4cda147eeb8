"""The numbered files, read and checked."""

import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from migrations.errors import MigrationFilesInvalid

SHIPPED: Final[Traversable] = files("migrations") / "sql"
NAME: Final = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
NO_TRANSACTION: Final = "-- migrate: no transaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One numbered file. `checksum` is the SHA-256 of its bytes, in hex."""

    version: int
    name: str
    sql: str
    checksum: str

    @property
    def transactional(self) -> bool:
        """False when the file asks to run outside a transaction."""
        return self.sql.split("\n", 1)[0].strip() != NO_TRANSACTION

    def __str__(self) -> str:
        return f"{self.version:04}_{self.name}"


def load(directory: Traversable = SHIPPED) -> tuple[Migration, ...]:
    """Read every migration in order.

    Raises:
        MigrationFilesInvalid: a name does not fit NNNN_name.sql, or the numbers are not 1, 2, 3 ...
    """
    found = sorted(
        (_read(entry) for entry in directory.iterdir() if entry.name.endswith(".sql")),
        key=lambda migration: migration.version,
    )
    for expected, migration in enumerate(found, start=1):
        if migration.version != expected:
            raise MigrationFilesInvalid(f"{migration}.sql: expected number {expected:04}")
    return tuple(found)


def _read(entry: Traversable) -> Migration:
    named = NAME.fullmatch(entry.name)
    if named is None:
        raise MigrationFilesInvalid(f"{entry.name}: a migration is called NNNN_lower_case_name.sql")
    content = entry.read_bytes()
    return Migration(
        version=int(named[1]),
        name=named[2],
        sql=content.decode(),
        checksum=hashlib.sha256(content).hexdigest(),
    )
