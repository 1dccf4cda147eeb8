-- API keys of tenants. What is stored of a key is the SHA-256 of its text, whose secret part has 256 random bits; its id is
-- no secret. A key names its tenant, so it is looked up as that tenant under the same policy as everything else: nobody
-- needs to see the keys of all. Rows are kept for good, as the jobs' principals are.
CREATE TABLE hourglass.api_keys (
    tenant_id   text        NOT NULL REFERENCES hourglass.tenants,
    key_id      text        NOT NULL CHECK (key_id ~ '^[a-z2-7]{16}$'),
    digest      bytea       NOT NULL CHECK (octet_length(digest) = 32),
    user_id     text        NOT NULL CHECK (user_id ~ '^[!-~]{1,128}$'),
    scopes      text[]      NOT NULL CHECK (cardinality(scopes) > 0),
    request_id  text        NOT NULL CHECK (length(request_id) BETWEEN 1 AND 255),
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    expire_time timestamptz,
    revoke_time timestamptz,
    PRIMARY KEY (tenant_id, key_id),
    UNIQUE (tenant_id, request_id)
);

ALTER TABLE hourglass.api_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE hourglass.api_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants_of_transaction ON hourglass.api_keys TO hourglass_request
    USING (tenant_id = ANY (string_to_array((SELECT current_setting('hourglass.tenants', true)), ',')));
CREATE POLICY all_tenants_read ON hourglass.api_keys FOR SELECT TO hourglass_readonly USING (true);

GRANT SELECT, INSERT, UPDATE ON hourglass.api_keys TO hourglass_request;
GRANT SELECT (tenant_id, key_id, user_id, scopes, request_id, create_time, expire_time, revoke_time)
    ON hourglass.api_keys TO hourglass_readonly;
