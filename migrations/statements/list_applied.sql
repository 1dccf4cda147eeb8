-- List the applied migrations in order. Takes no lock.
SELECT version, name, checksum, applied_time
FROM public.schema_migrations
ORDER BY version
