-- Deletes a tenant's short calls that were settled $2 seconds ago or longer. What the tenant paid moves to its archived
-- total in the same statement, and what they cost, overruns included, to its archived costs.
-- Locks: calls, waiting for none, then the tenant's funds, then the archived costs, in order of lanes.
-- $1 tenant, $2 lifetime in seconds, $3 after this call, $4 rows.
WITH looked_at AS MATERIALIZED (
    SELECT c.id FROM hourglass.calls c
    WHERE c.tenant_id = $1 AND c.id > $3
      AND c.id < (SELECT hourglass.first_id_of(clock_timestamp() - make_interval(secs => $2)))
    ORDER BY c.id LIMIT $4
), due AS MATERIALIZED (
    SELECT c.id, c.lane
    FROM unnest(ARRAY(SELECT id FROM looked_at)) AS l (id)
    JOIN hourglass.calls c ON c.tenant_id = $1 AND c.id = l.id
    WHERE c.settle_time < (SELECT clock_timestamp() - make_interval(secs => $2))
    ORDER BY c.id
    FOR NO KEY UPDATE OF c SKIP LOCKED
), overrun AS (
    DELETE FROM hourglass.overruns o
    USING unnest(ARRAY(SELECT id FROM due), ARRAY(SELECT lane FROM due)) AS d (id, lane)
    WHERE o.tenant_id = $1 AND o.subject_id = d.id
    RETURNING d.lane, o.amount
), trimmed AS (
    DELETE FROM hourglass.calls c
    USING unnest(ARRAY(SELECT id FROM due)) AS d (id)
    WHERE c.tenant_id = $1 AND c.id = d.id
    RETURNING c.lane, c.captured, c.cost, c.worst_case
), funds AS (
    UPDATE hourglass.tenant_funds f
    SET archived_captured = f.archived_captured + n.captured
    FROM (SELECT sum(captured) AS captured FROM trimmed) n
    WHERE f.tenant_id = $1 AND n.captured > 0
    RETURNING f.tenant_id
), archived AS (
    INSERT INTO hourglass.archived_costs AS a (tenant_id, lane, attempts, cost, worst_case, overrun)
    SELECT $1, lane, sum(attempts), sum(cost), sum(worst_case), sum(overrun)
    FROM (SELECT lane, 1 AS attempts, cost, worst_case, 0 AS overrun FROM trimmed
          UNION ALL SELECT lane, 0, 0, 0, amount FROM overrun) gone
    WHERE (SELECT count(*) FROM funds) >= 0
    GROUP BY lane ORDER BY lane
    ON CONFLICT (tenant_id, lane) DO UPDATE
        SET attempts = a.attempts + excluded.attempts, cost = a.cost + excluded.cost,
            worst_case = a.worst_case + excluded.worst_case, overrun = a.overrun + excluded.overrun
)
SELECT (SELECT count(*) FROM looked_at) AS looked_at, (SELECT count(*) FROM trimmed) AS trimmed,
       (SELECT id FROM looked_at ORDER BY id DESC LIMIT 1) AS last
