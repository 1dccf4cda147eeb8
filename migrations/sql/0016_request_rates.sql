-- Requests a second that a tenant may send to each server; null is the service's own setting. On the tenant, because
-- tenant_limits is what claims and creates lock.
ALTER TABLE hourglass.tenants ADD COLUMN request_rate double precision
    CONSTRAINT tenants_request_rate_check CHECK (request_rate > 0);
