-- What an unfinished job has cost, and may have cost at worst, is the sum over its attempts that ended: it decides whether
-- another one may follow.
WITH spent AS (
    SELECT tenant_id, job_id AS id, sum(cost) AS known, sum(worst_case) AS worst
    FROM hourglass.attempts
    WHERE (tenant_id, job_id) > ($1, $2) AND (tenant_id, job_id) <= ($3, $4)
    GROUP BY tenant_id, job_id
)
SELECT j.tenant_id, j.id::text AS subject,
       format('has cost %s, and %s at worst; its attempts say %s and %s', j.known_cost, j.unknown_cost,
              coalesce(s.known, 0), coalesce(s.worst, 0)) AS description
FROM hourglass.jobs j
LEFT JOIN spent s ON s.tenant_id = j.tenant_id AND s.id = j.id
WHERE (j.tenant_id, j.id) > ($1, $2) AND (j.tenant_id, j.id) <= ($3, $4)
  AND (j.known_cost, j.unknown_cost) <> (coalesce(s.known, 0), coalesce(s.worst, 0))
