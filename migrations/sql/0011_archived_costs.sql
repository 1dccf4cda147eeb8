-- What the operator paid for attempts and short calls whose rows have been deleted, and what of it no tenant paid: ledger
-- totals outlive their rows. By tenant and lane, so that a provider's bill can be compared with it. Written by the
-- statements that delete the rows; after tenant_funds in the lock order.
CREATE TABLE hourglass.archived_costs (
    tenant_id  text           NOT NULL,
    lane       text           NOT NULL,
    attempts   bigint         NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    cost       numeric(24, 9) NOT NULL DEFAULT 0 CHECK (cost >= 0),
    worst_case numeric(24, 9) NOT NULL DEFAULT 0 CHECK (worst_case >= 0),
    overrun    numeric(24, 9) NOT NULL DEFAULT 0 CHECK (overrun >= 0),
    PRIMARY KEY (tenant_id, lane)
);

-- All of it, deleted or not: known cost, the worst case of what nobody knows, and the overruns, by tenant and lane. Reads
-- every attempt and call, so it is for reports and not for requests.
CREATE VIEW hourglass.provider_costs WITH (security_invoker = true) AS
SELECT tenant_id, lane, sum(attempts)::bigint AS attempts, sum(cost) AS cost, sum(worst_case) AS worst_case,
       sum(overrun) AS overrun
FROM (
    SELECT tenant_id, lane, attempts, cost, worst_case, overrun FROM hourglass.archived_costs
    UNION ALL
    SELECT a.tenant_id, f.lane, 1, a.cost, a.worst_case, 0
    FROM hourglass.attempts a JOIN hourglass.job_facts f ON f.tenant_id = a.tenant_id AND f.id = a.job_id
    UNION ALL
    SELECT tenant_id, lane, 1, cost, worst_case, 0 FROM hourglass.calls WHERE settle_time IS NOT NULL
    UNION ALL
    SELECT o.tenant_id, coalesce(f.lane, c.lane), 0, 0, 0, o.amount
    FROM hourglass.overruns o
    LEFT JOIN hourglass.job_facts f ON f.tenant_id = o.tenant_id AND f.id = o.subject_id
    LEFT JOIN hourglass.calls c ON c.tenant_id = o.tenant_id AND c.id = o.subject_id
) costs
GROUP BY tenant_id, lane;

ALTER TABLE hourglass.archived_costs ENABLE ROW LEVEL SECURITY;
ALTER TABLE hourglass.archived_costs FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants_of_transaction ON hourglass.archived_costs TO hourglass_request
    USING (tenant_id = ANY (string_to_array((SELECT current_setting('hourglass.tenants', true)), ',')));
CREATE POLICY all_tenants ON hourglass.archived_costs TO hourglass_worker USING (true);
CREATE POLICY all_tenants_read ON hourglass.archived_costs FOR SELECT TO hourglass_readonly USING (true);
GRANT SELECT ON hourglass.archived_costs, hourglass.provider_costs
    TO hourglass_request, hourglass_worker, hourglass_readonly;
GRANT INSERT, UPDATE ON hourglass.archived_costs TO hourglass_worker;
