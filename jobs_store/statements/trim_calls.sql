-- Deletes a tenant's short calls that were settled $2 seconds ago or longer. What the tenant paid moves to its archived
-- total in the same statement. Locks: calls, waiting for none, then the tenant's funds.
-- $1 tenant, $2 lifetime in seconds, $3 after this call, $4 rows.
WITH looked_at AS MATERIALIZED (
    SELECT c.id FROM hourglass.calls c
    WHERE c.tenant_id = $1 AND c.id > $3
      AND c.id < (SELECT hourglass.first_id_of(clock_timestamp() - make_interval(secs => $2)))
    ORDER BY c.id LIMIT $4
), due AS MATERIALIZED (
    SELECT c.id
    FROM unnest(ARRAY(SELECT id FROM looked_at)) AS l (id)
    JOIN hourglass.calls c ON c.tenant_id = $1 AND c.id = l.id
    WHERE c.settle_time < (SELECT clock_timestamp() - make_interval(secs => $2))
    ORDER BY c.id
    FOR NO KEY UPDATE OF c SKIP LOCKED
), overrun AS (
    DELETE FROM hourglass.overruns o
    USING unnest(ARRAY(SELECT id FROM due)) AS d (id)
    WHERE o.tenant_id = $1 AND o.subject_id = d.id
), trimmed AS (
    DELETE FROM hourglass.calls c
    USING unnest(ARRAY(SELECT id FROM due)) AS d (id)
    WHERE c.tenant_id = $1 AND c.id = d.id
    RETURNING c.captured
), funds AS (
    UPDATE hourglass.tenant_funds f
    SET archived_captured = f.archived_captured + n.captured
    FROM (SELECT sum(captured) AS captured FROM trimmed) n
    WHERE f.tenant_id = $1 AND n.captured > 0
)
SELECT (SELECT count(*) FROM looked_at) AS looked_at, (SELECT count(*) FROM trimmed) AS trimmed,
       (SELECT id FROM looked_at ORDER BY id DESC LIMIT 1) AS last
