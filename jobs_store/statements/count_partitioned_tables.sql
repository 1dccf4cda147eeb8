-- Counts the partitioned tables of the schema. Takes no lock.
SELECT count(*)
FROM pg_partitioned_table t
JOIN pg_class p ON p.oid = t.partrelid
WHERE p.relnamespace = 'hourglass'::regnamespace
