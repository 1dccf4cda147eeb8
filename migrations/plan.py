"""What is left to apply: decided from the files and the history, before anything is touched."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from migrations.errors import DatabaseNewerThanCode, MigrationChanged
from migrations.files import Migration


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """One entry of the history in the database."""

    version: int
    name: str
    checksum: str
    applied_time: datetime


def pending(migrations: Sequence[Migration], history: Sequence[Applied]) -> tuple[Migration, ...]:
    """Return the migrations that the history lacks, in order.

    Raises:
        DatabaseNewerThanCode: the history goes beyond the files.
        MigrationChanged: an applied file has another content or name now.
    """
    known = {migration.version: migration for migration in migrations}
    for applied in history:
        _check(applied, known.get(applied.version))
    done = {applied.version for applied in history}
    return tuple(migration for migration in migrations if migration.version not in done)


def _check(applied: Applied, migration: Migration | None) -> None:
    if migration is None:
        raise DatabaseNewerThanCode(
            f"the database has migration {applied.version:04}_{applied.name} (of "
            f"{applied.applied_time:%Y-%m-%d %H:%M} UTC), unknown to this release: deploy a newer one"
        )
    if migration.checksum != applied.checksum:
        raise MigrationChanged(
            f"{migration}.sql was changed after it was applied as {applied.version:04}_{applied.name} "
            f"({applied.checksum[:12]} then, {migration.checksum[:12]} now): restore it, add a new migration"
        )
