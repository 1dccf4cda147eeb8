-- Answers the job that a key made, while the key lives: for its own time, and as long as the job has its payload. Takes no
-- lock: a create that races with this read is decided by the unique key in create_job.
SELECT k.hash_version, k.request_digest, k.job_id, greatest(k.expire_time, clock_timestamp()) AS expire_time
FROM hourglass.idempotency_keys k
WHERE k.tenant_id = $1 AND k.key_digest = $2
  AND (k.expire_time > clock_timestamp()
       OR EXISTS (SELECT FROM hourglass.job_payloads p WHERE p.tenant_id = k.tenant_id AND p.id = k.job_id))
