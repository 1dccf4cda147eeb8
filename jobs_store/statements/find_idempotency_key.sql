-- Answers the job that a key made, while the key lives. Takes no lock: a create that races with this read is decided by
-- the unique key in create_job.
SELECT hash_version, request_digest, job_id, expire_time
FROM hourglass.idempotency_keys
WHERE tenant_id = $1 AND key_digest = $2 AND expire_time > clock_timestamp()
