-- Deletes keys whose lifetime is over, of all tenants, $1 rows at most. A key outlives the payload of its job: if there is
-- one still, the key lives $2 seconds longer, which also gets it out of the way of the others. Locks keys and waits for none.
WITH looked_at AS MATERIALIZED (
    SELECT k.tenant_id, k.key_digest, k.job_id
    FROM hourglass.idempotency_keys k
    WHERE k.expire_time < (SELECT clock_timestamp())
    ORDER BY k.expire_time LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
), judged AS MATERIALIZED (
    SELECT l.tenant_id, l.key_digest,
           EXISTS (SELECT FROM hourglass.job_payloads p WHERE p.tenant_id = l.tenant_id AND p.id = l.job_id OFFSET 0) AS stays
    FROM looked_at l
), extended AS (
    UPDATE hourglass.idempotency_keys k
    SET expire_time = clock_timestamp() + make_interval(secs => $2)
    FROM unnest(ARRAY(SELECT tenant_id FROM judged WHERE stays), ARRAY(SELECT key_digest FROM judged WHERE stays))
        AS j (tenant_id, key_digest)
    WHERE k.tenant_id = j.tenant_id AND k.key_digest = j.key_digest
), trimmed AS (
    DELETE FROM hourglass.idempotency_keys k
    USING unnest(ARRAY(SELECT tenant_id FROM judged WHERE NOT stays), ARRAY(SELECT key_digest FROM judged WHERE NOT stays))
        AS j (tenant_id, key_digest)
    WHERE k.tenant_id = j.tenant_id AND k.key_digest = j.key_digest
    RETURNING k.job_id
)
SELECT (SELECT count(*) FROM looked_at) AS looked_at, (SELECT count(*) FROM trimmed) AS trimmed
