-- Finds the API key that somebody presents, by its tenant and id. Locks nothing.
SELECT digest, user_id, scopes, expire_time, revoke_time
FROM hourglass.api_keys
WHERE tenant_id = $1 AND key_id = $2
