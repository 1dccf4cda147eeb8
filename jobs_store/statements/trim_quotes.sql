-- Deletes a tenant's quotes that were made $2 seconds ago or longer and cannot be used any more. Locks them and waits for
-- none. $1 tenant, $2 lifetime in seconds, $3 after this quote, $4 rows.
WITH looked_at AS MATERIALIZED (
    SELECT q.id FROM hourglass.quotes q
    WHERE q.tenant_id = $1 AND q.id > $3
      AND q.id < (SELECT hourglass.first_id_of(clock_timestamp() - make_interval(secs => $2)))
    ORDER BY q.id LIMIT $4
), due AS MATERIALIZED (
    SELECT q.id
    FROM unnest(ARRAY(SELECT id FROM looked_at)) AS l (id)
    JOIN hourglass.quotes q ON q.tenant_id = $1 AND q.id = l.id
    WHERE q.used_time IS NOT NULL OR q.expire_time < (SELECT clock_timestamp())
    ORDER BY q.id
    FOR NO KEY UPDATE OF q SKIP LOCKED
), trimmed AS (
    DELETE FROM hourglass.quotes q
    USING unnest(ARRAY(SELECT id FROM due)) AS d (id)
    WHERE q.tenant_id = $1 AND q.id = d.id
    RETURNING q.id
)
SELECT (SELECT count(*) FROM looked_at) AS looked_at, (SELECT count(*) FROM trimmed) AS trimmed,
       (SELECT id FROM looked_at ORDER BY id DESC LIMIT 1) AS last
