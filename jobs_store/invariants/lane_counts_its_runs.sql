-- A lane's counter is the number of its running jobs, and every lane that a job runs in is known.
WITH counted AS (
    SELECT lane, count(*) AS running FROM hourglass.jobs WHERE state = 'RUNNING' GROUP BY lane
)
SELECT '' AS tenant_id, coalesce(l.lane, c.lane) AS subject,
       CASE WHEN l.lane IS NULL THEN format('is not known, and %s jobs run in it', c.running)
            ELSE format('counts %s running, and has %s', l.running, coalesce(c.running, 0)) END AS description
FROM hourglass.lanes l
FULL JOIN counted c ON c.lane = l.lane
WHERE l.running IS DISTINCT FROM coalesce(c.running, 0)
