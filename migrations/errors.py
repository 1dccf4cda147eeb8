"""Why a database cannot be brought up to date."""


class MigrationError(Exception):
    """The schema cannot be brought up to date."""

    reason = "MIGRATION_FAILED"


class MigrationFilesInvalid(MigrationError):
    """The numbered files themselves are wrong."""

    reason = "MIGRATION_FILES_INVALID"


class MigrationChanged(MigrationError):
    """A file that was already applied is no longer what was applied."""

    reason = "MIGRATION_CHANGED"


class DatabaseNewerThanCode(MigrationError):
    """The database was brought further than this code knows: this is an old release."""

    reason = "DATABASE_NEWER_THAN_CODE"


class ServerTooOld(MigrationError):
    """The server is older than the schema needs."""

    reason = "SERVER_TOO_OLD"


class MigrationBlocked(MigrationError):
    """Another transaction held a lock that the migration needs; the migration was rolled back."""

    reason = "MIGRATION_BLOCKED"
