-- Enter a migration into the history, in its own transaction where it has one. Runs under the advisory lock.
INSERT INTO public.schema_migrations (version, name, checksum)
VALUES ($1, $2, $3)
