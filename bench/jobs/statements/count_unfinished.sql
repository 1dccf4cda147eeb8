-- How many jobs are not over yet: the tenants' own counts, which cost nothing to read.
SELECT coalesce(sum(queued + running), 0)::bigint FROM hourglass.tenant_limits
