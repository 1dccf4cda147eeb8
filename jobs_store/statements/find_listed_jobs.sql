-- Those of the jobs that an operator names which the rest of the filter means, wherever they stand. Takes no lock.
-- $1 tenant, $2 jobs, $3 lane, $4 cause, $5 created from, $6 created before (null: any).
SELECT k.id, coalesce(j.lane, d.lane) AS lane, coalesce(j.state, d.state) AS state
FROM unnest($2::uuid[]) AS k (id)
JOIN hourglass.job_facts f ON f.tenant_id = $1 AND f.id = k.id
LEFT JOIN hourglass.jobs j ON j.tenant_id = $1 AND j.id = k.id
LEFT JOIN hourglass.finished_jobs d ON d.tenant_id = $1 AND d.id = k.id
WHERE (j.id IS NOT NULL OR d.id IS NOT NULL)
  AND ($3::text IS NULL OR coalesce(j.lane, d.lane) = $3)
  AND ($4::text IS NULL OR coalesce(j.state_cause, d.state_cause) = $4)
  AND ($5::timestamptz IS NULL OR f.create_time >= $5) AND ($6::timestamptz IS NULL OR f.create_time < $6)
ORDER BY k.id
