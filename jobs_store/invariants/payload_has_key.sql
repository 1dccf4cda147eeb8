-- As long as a job has its payload, it has the idempotency key that made it.
SELECT p.tenant_id, p.id::text AS subject, 'has a payload, and no key any more' AS description
FROM hourglass.job_payloads p
LEFT JOIN hourglass.idempotency_keys k
    ON k.tenant_id = p.tenant_id AND k.job_id = p.id
    AND (k.tenant_id, k.job_id) > ($1, $2) AND (k.tenant_id, k.job_id) <= ($3, $4)
WHERE (p.tenant_id, p.id) > ($1, $2) AND (p.tenant_id, p.id) <= ($3, $4)
  AND k.job_id IS NULL
