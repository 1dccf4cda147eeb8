-- What the worker role has run so far, and what was committed and logged by all.
SELECT coalesce(sum(s.calls), 0)::bigint AS statements, d.xact_commit AS commits, w.wal_bytes::bigint AS wal_bytes
FROM pg_stat_database d
CROSS JOIN pg_stat_wal w
LEFT JOIN pg_stat_statements s ON s.dbid = d.datid AND s.userid = 'hourglass_worker'::regrole
WHERE d.datname = current_database()
GROUP BY d.xact_commit, w.wal_bytes
