-- Makes an API key of a tenant; its operator's request was taken before, in the same transaction. Without the tenant it
-- breaks the foreign key. Locks the tenant's row against deletion only.
-- $1 tenant, $2 id, $3 digest, $4 user, $5 scopes, $6 expire time or null, $7 request_id.
INSERT INTO hourglass.api_keys (tenant_id, key_id, digest, user_id, scopes, expire_time, request_id)
VALUES ($1, $2, $3, $4, $5, $6, $7)
