-- Every idempotency key leads to a job that is there.
SELECT k.tenant_id, k.job_id::text AS subject,
       format('is what the key with the digest %s leads to, and is not there', encode(k.key_digest, 'hex')) AS description
FROM hourglass.idempotency_keys k
LEFT JOIN hourglass.job_facts f
    ON f.tenant_id = k.tenant_id AND f.id = k.job_id AND (f.tenant_id, f.id) > ($1, $2) AND (f.tenant_id, f.id) <= ($3, $4)
WHERE (k.tenant_id, k.job_id) > ($1, $2) AND (k.tenant_id, k.job_id) <= ($3, $4)
  AND f.id IS NULL
