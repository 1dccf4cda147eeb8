"""What can go wrong before the services run."""


class PostgresError(Exception):
    """The database server cannot be started or used."""

    reason = "DATABASE_UNAVAILABLE"
