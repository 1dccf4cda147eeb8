-- A page of lanes by name: those that are known and those in which jobs wait although no worker has named them. Steps
-- through the claim index: one probe for each lane, at most $3 rows for its depth, and one probe for each of the first $4
-- groups of tenant, priority and spec version to find the job that has been ready longest. Takes no lock. The orders that
-- matter to nobody keep the planner to that index.
-- $1 from this lane on, $2 lanes, $3 the most that is counted, $4 groups that are looked at.
WITH RECURSIVE waiting AS (
    (SELECT j.lane, 1 AS looked FROM hourglass.jobs j
     WHERE j.state = 'QUEUED' AND j.lane >= $1 ORDER BY j.lane LIMIT 1)
    UNION ALL
    SELECT next.lane, w.looked + 1
    FROM waiting w
    CROSS JOIN LATERAL (
        SELECT j.lane FROM hourglass.jobs j WHERE j.state = 'QUEUED' AND j.lane > w.lane ORDER BY j.lane LIMIT 1
    ) next
    WHERE w.looked < $2
), page AS MATERIALIZED (
    SELECT lane
    FROM ((SELECT l.lane FROM hourglass.lanes l WHERE l.lane >= $1 ORDER BY l.lane LIMIT $2)
          UNION SELECT lane FROM waiting) AS named
    ORDER BY lane LIMIT $2
)
SELECT p.lane, l.max_running, coalesce(l.running, 0) AS running, l.paused_time,
       CASE WHEN l.paused_time IS NOT NULL THEN 'PAUSED' WHEN l.park_until > clock.now THEN 'PARKED' ELSE 'OPEN' END AS state,
       CASE WHEN l.park_until > clock.now THEN l.park_cause END AS park_cause,
       CASE WHEN l.park_until > clock.now THEN nullif(l.park_until, 'infinity') END AS park_until,
       depth.queued, oldest.ready_time AS oldest_ready_time,
       coalesce(extract(epoch FROM clock.now - oldest.ready_time), 0)::double precision AS oldest_age
FROM page p
CROSS JOIN (SELECT clock_timestamp() AS now) clock
LEFT JOIN hourglass.lanes l ON l.lane = p.lane
CROSS JOIN LATERAL (
    SELECT count(*) AS queued
    FROM (SELECT FROM hourglass.jobs j WHERE j.state = 'QUEUED' AND j.lane = p.lane
          ORDER BY j.lane, j.tenant_id, j.priority, j.spec_version, j.ready_time LIMIT $3) AS counted
) depth
CROSS JOIN LATERAL (
    WITH RECURSIVE first AS (
        (SELECT j.tenant_id, j.priority, j.spec_version, j.ready_time, 1 AS looked FROM hourglass.jobs j
         WHERE j.state = 'QUEUED' AND j.lane = p.lane
         ORDER BY j.lane, j.tenant_id, j.priority, j.spec_version, j.ready_time LIMIT 1)
        UNION ALL
        SELECT next.tenant_id, next.priority, next.spec_version, next.ready_time, f.looked + 1
        FROM first f
        CROSS JOIN LATERAL (
            SELECT j.tenant_id, j.priority, j.spec_version, j.ready_time FROM hourglass.jobs j
            WHERE j.state = 'QUEUED' AND j.lane = p.lane
              AND (j.tenant_id, j.priority, j.spec_version) > (f.tenant_id, f.priority, f.spec_version)
            ORDER BY j.lane, j.tenant_id, j.priority, j.spec_version, j.ready_time LIMIT 1
        ) next
        WHERE f.looked < $4
    )
    SELECT min(f.ready_time) AS ready_time FROM first f WHERE f.ready_time <= clock.now
) oldest
ORDER BY p.lane
