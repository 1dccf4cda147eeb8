-- migrate: contract: nobody runs a release yet whose claim steps through the index that goes here
-- Jobs of a newer spec than a worker knows are one step of its claim, however many they are: the version is a part of the
-- key, before the time. The first row of a lane, tenant, priority and version tells whether anything is ready there.
CREATE INDEX jobs_claim_index ON hourglass.jobs (lane, tenant_id, priority, spec_version, ready_time, id)
    WHERE state = 'QUEUED';
DROP INDEX hourglass.jobs_ready_index;

-- How far the oldest snapshot in this database holds vacuum back, in transactions and in seconds. Only who may read all
-- statistics sees the snapshots of others, so the owner looks; NULLs when the owner may not either.
CREATE FUNCTION hourglass.oldest_snapshot() RETURNS TABLE (transactions bigint, seconds double precision)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN allowed THEN coalesce(max(h.transactions), 0) END, CASE WHEN allowed THEN coalesce(max(h.seconds), 0) END
    FROM (SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS allowed) a
    LEFT JOIN (
        SELECT age(a.backend_xmin)::bigint AS transactions,
               extract(epoch FROM clock_timestamp() - a.xact_start)::double precision AS seconds
        FROM pg_stat_activity a
        WHERE a.backend_xmin IS NOT NULL AND a.pid <> pg_backend_pid() AND a.backend_type <> 'autovacuum worker'
          AND coalesce(a.datname = current_database(), true)
        UNION ALL
        SELECT age(p.transaction)::bigint, extract(epoch FROM clock_timestamp() - p.prepared)::double precision
        FROM pg_prepared_xacts p WHERE p.database = current_database()
        UNION ALL
        SELECT age(s.xmin)::bigint, NULL FROM pg_replication_slots s WHERE s.xmin IS NOT NULL
    ) h ON true
    GROUP BY allowed
$$;
REVOKE EXECUTE ON FUNCTION hourglass.oldest_snapshot() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION hourglass.oldest_snapshot() TO hourglass_worker, hourglass_readonly;
