-- What Postgres spent its time on, the most expensive first.
SELECT calls, total_exec_time, rows, wal_bytes::bigint AS wal_bytes, left(regexp_replace(query, '\s+', ' ', 'g'), 90) AS query
FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
ORDER BY total_exec_time DESC LIMIT 12
