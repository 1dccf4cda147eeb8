"""The schema as numbered, plain .sql files in `migrations/sql`, applied in order and never undone.

A file is one transaction. A file whose first line is `-- migrate: no transaction` runs outside one, for
CREATE INDEX CONCURRENTLY and the like: it holds exactly one statement, which must be safe to run again:
a crash between the statement and its entry in the history leaves it to be applied once more.
"""
