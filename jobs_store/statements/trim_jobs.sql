-- Deletes a tenant's jobs that ended $2 seconds ago or longer, with their facts and settled reservations, once nothing else
-- of them is left: no payload, result, log or attempt, no key that made them, and no open reservation. What the tenant paid
-- moves to its archived total in the same statement, and what went beyond that to its archived costs.
-- Locks: finished jobs, waiting for none, then the tenant's funds, then the archived costs, in order of lanes.
-- $1 tenant, $2 lifetime in seconds, $3 after this job, $4 rows.
WITH looked_at AS MATERIALIZED (
    SELECT d.id FROM hourglass.finished_jobs d
    WHERE d.tenant_id = $1 AND d.id > $3
      AND d.id < (SELECT hourglass.first_id_of(clock_timestamp() - make_interval(secs => $2)))
    ORDER BY d.id LIMIT $4
), due AS MATERIALIZED (
    SELECT d.id, d.lane
    FROM unnest(ARRAY(SELECT id FROM looked_at)) AS l (id)
    JOIN hourglass.finished_jobs d ON d.tenant_id = $1 AND d.id = l.id
    WHERE d.end_time < (SELECT clock_timestamp() - make_interval(secs => $2))
      AND NOT EXISTS (SELECT FROM hourglass.job_payloads p WHERE p.tenant_id = $1 AND p.id = l.id OFFSET 0)
      AND NOT EXISTS (SELECT FROM hourglass.job_results r WHERE r.tenant_id = $1 AND r.id = l.id OFFSET 0)
      AND NOT EXISTS (SELECT FROM hourglass.job_events e WHERE e.tenant_id = $1 AND e.job_id = l.id OFFSET 0)
      AND NOT EXISTS (SELECT FROM hourglass.attempts a WHERE a.tenant_id = $1 AND a.job_id = l.id OFFSET 0)
      AND NOT EXISTS (SELECT FROM hourglass.idempotency_keys k WHERE k.tenant_id = $1 AND k.job_id = l.id OFFSET 0)
      AND NOT EXISTS (SELECT FROM hourglass.reservations v
                      WHERE v.tenant_id = $1 AND v.job_id = l.id AND v.settle_time IS NULL OFFSET 0)
    ORDER BY d.id
    FOR NO KEY UPDATE OF d SKIP LOCKED
), reservation AS (
    DELETE FROM hourglass.reservations v
    USING unnest(ARRAY(SELECT id FROM due)) AS d (id)
    WHERE v.tenant_id = $1 AND v.job_id = d.id
    RETURNING v.captured
), overrun AS (
    DELETE FROM hourglass.overruns o
    USING unnest(ARRAY(SELECT id FROM due), ARRAY(SELECT lane FROM due)) AS d (id, lane)
    WHERE o.tenant_id = $1 AND o.subject_id = d.id
    RETURNING d.lane, o.amount
), facts AS (
    DELETE FROM hourglass.job_facts f
    USING unnest(ARRAY(SELECT id FROM due)) AS d (id)
    WHERE f.tenant_id = $1 AND f.id = d.id
), trimmed AS (
    DELETE FROM hourglass.finished_jobs j
    USING unnest(ARRAY(SELECT id FROM due)) AS d (id)
    WHERE j.tenant_id = $1 AND j.id = d.id
    RETURNING j.id
), funds AS (
    UPDATE hourglass.tenant_funds f
    SET archived_captured = f.archived_captured + n.captured
    FROM (SELECT sum(captured) AS captured FROM reservation) n
    WHERE f.tenant_id = $1 AND n.captured > 0
    RETURNING f.tenant_id
), archived AS (
    INSERT INTO hourglass.archived_costs AS c (tenant_id, lane, overrun)
    SELECT $1, lane, sum(amount) FROM overrun WHERE (SELECT count(*) FROM funds) >= 0
    GROUP BY lane ORDER BY lane
    ON CONFLICT (tenant_id, lane) DO UPDATE SET overrun = c.overrun + excluded.overrun
)
SELECT (SELECT count(*) FROM looked_at) AS looked_at, (SELECT count(*) FROM trimmed) AS trimmed,
       (SELECT id FROM looked_at ORDER BY id DESC LIMIT 1) AS last
