-- Deletes a tenant's rows of the audit log that are $2 seconds old or older; '*' stands for what is about no tenant.
-- Nobody changes such rows, and nobody else deletes any but who does the same.
-- $1 tenant, $2 lifetime in seconds, $3 after this row, $4 rows.
WITH looked_at AS MATERIALIZED (
    SELECT l.id FROM hourglass.audit_log l
    WHERE l.tenant_id = $1 AND l.id > $3
      AND l.id < (SELECT hourglass.first_id_of(clock_timestamp() - make_interval(secs => $2)))
    ORDER BY l.id LIMIT $4
    FOR NO KEY UPDATE SKIP LOCKED
), trimmed AS (
    DELETE FROM hourglass.audit_log l
    USING unnest(ARRAY(SELECT id FROM looked_at)) AS d (id)
    WHERE l.tenant_id = $1 AND l.id = d.id
    RETURNING l.id
)
SELECT (SELECT count(*) FROM looked_at) AS looked_at, (SELECT count(*) FROM trimmed) AS trimmed,
       (SELECT id FROM looked_at ORDER BY id DESC LIMIT 1) AS last
