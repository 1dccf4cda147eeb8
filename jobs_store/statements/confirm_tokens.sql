-- Tells, without a lock, whether a row that a renewal could not lock still shows its token. $1 tenants, $2 jobs,
-- $3 tokens, side by side.
SELECT r.ordinal, CASE WHEN j.id IS NULL THEN 'LEASE_LOST' ELSE 'BUSY' END AS verdict
FROM unnest($1::text[], $2::uuid[], $3::uuid[]) WITH ORDINALITY AS r (tenant_id, id, run_token, ordinal)
LEFT JOIN hourglass.jobs j ON j.tenant_id = r.tenant_id AND j.id = r.id AND j.run_token = r.run_token
ORDER BY r.ordinal
