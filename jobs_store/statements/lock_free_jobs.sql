-- Locks those of the jobs whose rows nobody else has locked, and answers their places in the arrays: a reaper never waits
-- for a job. $1 tenants, $2 jobs, side by side.
SELECT r.ordinal::integer AS ordinal
FROM unnest($1::text[], $2::uuid[]) WITH ORDINALITY AS r (tenant_id, id, ordinal)
JOIN hourglass.jobs j ON j.tenant_id = r.tenant_id AND j.id = r.id
ORDER BY j.tenant_id, j.id
FOR NO KEY UPDATE OF j SKIP LOCKED
