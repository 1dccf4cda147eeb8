-- Reads what may be told of an API key, by its id or, where that is null, by the request that made it. Locks nothing.
-- $1 tenant, $2 id or null, $3 request_id or null.
SELECT tenant_id, key_id, user_id, scopes, create_time, expire_time, revoke_time
FROM hourglass.api_keys
WHERE tenant_id = $1 AND (key_id = $2 OR request_id = $3)
