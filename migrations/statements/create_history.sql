-- Make the table of applied migrations. Runs under the migrations' advisory lock, so that two cannot collide.
CREATE TABLE IF NOT EXISTS public.schema_migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_time timestamptz NOT NULL DEFAULT clock_timestamp()
)
