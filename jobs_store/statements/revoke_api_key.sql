-- Ends an API key; the first end stays. Answers nothing when the tenant has no such key. Two at once: the second waits for
-- the row and keeps the first one's time. $1 tenant, $2 id.
UPDATE hourglass.api_keys
SET revoke_time = coalesce(revoke_time, clock_timestamp())
WHERE tenant_id = $1 AND key_id = $2
RETURNING key_id
