-- The request rates of these tenants, those without one of their own included. Locks nothing.
SELECT tenant_id, request_rate FROM hourglass.tenants WHERE tenant_id = ANY ($1::text[])
