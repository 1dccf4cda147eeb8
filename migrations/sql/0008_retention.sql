-- Retention: how long rows are kept, by class and tenant, and what it may do. Lifetimes are settings of the services; what
-- a tenant has instead stands on its row, as seconds by class.
ALTER TABLE hourglass.tenants ADD COLUMN retention jsonb NOT NULL DEFAULT '{}'
    CONSTRAINT tenants_retention_check CHECK (jsonb_typeof(retention) = 'object');

-- Whose turn it is: all processes share one pass over the tenants, page by page. One row.
CREATE TABLE hourglass.retention_turn (
    only_row     boolean     NOT NULL DEFAULT true CHECK (only_row),
    after_tenant text        NOT NULL DEFAULT '',
    due_time     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (only_row)
);
INSERT INTO hourglass.retention_turn DEFAULT VALUES;

-- A job's row outlives its key, so retention asks which keys a job has.
CREATE INDEX idempotency_keys_job_index ON hourglass.idempotency_keys (tenant_id, job_id);

GRANT SELECT, UPDATE ON hourglass.retention_turn TO hourglass_worker;
GRANT SELECT ON hourglass.retention_turn TO hourglass_readonly;
GRANT UPDATE ON hourglass.finished_jobs, hourglass.idempotency_keys, hourglass.quotes, hourglass.audit_log
    TO hourglass_worker;
GRANT DELETE ON hourglass.finished_jobs, hourglass.job_facts, hourglass.attempts, hourglass.reservations,
    hourglass.overruns, hourglass.calls TO hourglass_worker;

-- Whether a week of a table has no rows; a week that has no partition has none. $2: the name of the week.
CREATE FUNCTION hourglass.is_empty_week(parent text, week text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    child_name text := parent || '_' || week;
    is_empty   boolean;
BEGIN
    IF to_regclass(format('hourglass.%I', child_name)) IS NULL THEN
        RETURN true;
    END IF;
    EXECUTE format('SELECT NOT EXISTS (SELECT FROM hourglass.%I)', child_name) INTO is_empty;
    RETURN is_empty;
END
$$;
REVOKE ALL ON FUNCTION hourglass.is_empty_week(text, text) FROM PUBLIC;

-- Drops one partition that is older than two weeks, empty, and will stay so, and answers its name; null when there is
-- none. Rows of a job are written as long as the job can run, whatever its age: those partitions go when no job of their
-- week is left. Dropping takes a lock that stops everybody who uses the table: it is held for one drop, and not waited for.
CREATE FUNCTION hourglass.drop_empty_partition() RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    child record;
BEGIN
    FOR child IN
        SELECT p.relname AS parent, c.relname AS name, substr(c.relname, length(p.relname) + 2) AS week
        FROM pg_inherits i
        JOIN pg_class c ON c.oid = i.inhrelid
        JOIN pg_class p ON p.oid = i.inhparent
        WHERE p.relnamespace = 'hourglass'::regnamespace AND p.relkind = 'p' AND c.relkind = 'r'
          AND (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \(''([0-9a-f-]+)''\)'))[1]::uuid
              <= hourglass.first_id_of(clock_timestamp() - interval '14 days')
        ORDER BY (p.relname = 'job_facts'), (p.relname = 'calls'), c.relname
    LOOP
        CONTINUE WHEN NOT hourglass.is_empty_week(child.parent, child.week);
        CONTINUE WHEN child.parent NOT IN ('job_payloads', 'quotes', 'audit_log', 'calls')
            AND NOT hourglass.is_empty_week('job_facts', child.week);
        CONTINUE WHEN child.parent = 'overruns' AND NOT hourglass.is_empty_week('calls', child.week);
        EXECUTE format('LOCK TABLE hourglass.%I IN ACCESS EXCLUSIVE MODE', child.parent);
        CONTINUE WHEN NOT hourglass.is_empty_week(child.parent, child.week);
        EXECUTE format('DROP TABLE hourglass.%I', child.name);
        RETURN child.name;
    END LOOP;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION hourglass.drop_empty_partition() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION hourglass.drop_empty_partition() TO hourglass_worker;
