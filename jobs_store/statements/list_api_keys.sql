-- A page of a tenant's API keys, by id. Locks nothing. $1 tenant, $2 after this id, $3 rows.
SELECT tenant_id, key_id, user_id, scopes, create_time, expire_time, revoke_time
FROM hourglass.api_keys
WHERE tenant_id = $1 AND key_id > $2
ORDER BY key_id
LIMIT $3
