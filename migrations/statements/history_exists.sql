-- Tell whether the table of applied migrations is there. Takes no lock.
SELECT to_regclass('public.schema_migrations') IS NOT NULL
