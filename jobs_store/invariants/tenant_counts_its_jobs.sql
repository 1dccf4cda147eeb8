-- A tenant's counters of running and queued jobs are the numbers of its rows.
WITH counted AS (
    SELECT tenant_id, count(*) FILTER (WHERE state = 'RUNNING') AS running,
           count(*) FILTER (WHERE state = 'QUEUED') AS queued
    FROM hourglass.jobs WHERE tenant_id = ANY ($1::text[]) GROUP BY tenant_id
)
SELECT l.tenant_id, l.tenant_id AS subject,
       format('counts %s running and %s queued, and has %s and %s', l.running, l.queued, coalesce(c.running, 0),
              coalesce(c.queued, 0)) AS description
FROM hourglass.tenant_limits l
LEFT JOIN counted c ON c.tenant_id = l.tenant_id
WHERE l.tenant_id = ANY ($1::text[])
  AND (l.running, l.queued) <> (coalesce(c.running, 0), coalesce(c.queued, 0))
