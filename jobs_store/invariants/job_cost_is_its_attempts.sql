-- What an unfinished job has cost, and may have cost at worst, is the sum over its attempts. A run that lost its job may
-- write later what its attempt did cost: then the attempts know more than the row, and never less.
WITH spent AS (
    SELECT tenant_id, job_id AS id, sum(cost) AS known, sum(worst_case) AS worst,
           bool_or(outcome <> 'SUCCEEDED' AND cost_basis IN ('REPORTED', 'ESTIMATED')) AS known_later
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
  AND CASE WHEN s.known_later THEN j.known_cost > s.known OR j.unknown_cost < s.worst
           ELSE (j.known_cost, j.unknown_cost) <> (coalesce(s.known, 0), coalesce(s.worst, 0)) END
