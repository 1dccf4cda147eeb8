-- Who may do what. The request role sees the tenants that its transaction names and no other row; the worker role
-- works for all tenants; the read-only role looks at everything. Partitions are reached through their parents only.
DO $$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY[
        'tenants', 'tenant_limits', 'tenant_funds', 'fundings', 'operator_requests', 'audit_log',
        'jobs', 'job_facts', 'job_payloads', 'job_results', 'finished_jobs', 'attempts', 'job_events',
        'idempotency_keys', 'reservations', 'overruns', 'calls', 'quotes'
    ] LOOP
        EXECUTE format('ALTER TABLE hourglass.%I ENABLE ROW LEVEL SECURITY', table_name);
        EXECUTE format('ALTER TABLE hourglass.%I FORCE ROW LEVEL SECURITY', table_name);
        -- The sub-select makes the setting be read once a statement, not once a row.
        EXECUTE format(
            'CREATE POLICY tenants_of_transaction ON hourglass.%I TO hourglass_request '
            'USING (tenant_id = ANY (string_to_array((SELECT current_setting(''hourglass.tenants'', true)), '','')))',
            table_name
        );
        EXECUTE format('CREATE POLICY all_tenants ON hourglass.%I TO hourglass_worker USING (true)', table_name);
        EXECUTE format('CREATE POLICY all_tenants_read ON hourglass.%I FOR SELECT TO hourglass_readonly USING (true)', table_name);
        EXECUTE format('GRANT SELECT ON hourglass.%I TO hourglass_request, hourglass_worker, hourglass_readonly', table_name);
    END LOOP;
END
$$;

GRANT SELECT ON hourglass.lanes, hourglass.lane_closures TO hourglass_request, hourglass_worker, hourglass_readonly;

GRANT INSERT ON hourglass.tenants, hourglass.tenant_limits, hourglass.tenant_funds, hourglass.fundings,
    hourglass.operator_requests, hourglass.audit_log, hourglass.jobs, hourglass.job_facts, hourglass.job_payloads,
    hourglass.finished_jobs, hourglass.attempts, hourglass.job_events, hourglass.job_results,
    hourglass.idempotency_keys, hourglass.reservations, hourglass.overruns, hourglass.calls, hourglass.quotes
    TO hourglass_request;
GRANT UPDATE ON hourglass.tenants, hourglass.tenant_limits, hourglass.tenant_funds, hourglass.jobs,
    hourglass.finished_jobs, hourglass.attempts, hourglass.idempotency_keys, hourglass.reservations, hourglass.calls, hourglass.quotes,
    hourglass.lanes, hourglass.lane_closures TO hourglass_request;
GRANT DELETE ON hourglass.jobs, hourglass.finished_jobs, hourglass.job_payloads, hourglass.job_results,
    hourglass.job_events TO hourglass_request;
GRANT INSERT ON hourglass.lanes, hourglass.lane_closures TO hourglass_request;

GRANT INSERT ON hourglass.lanes, hourglass.lane_closures, hourglass.finished_jobs, hourglass.job_results,
    hourglass.attempts, hourglass.job_events, hourglass.overruns, hourglass.audit_log TO hourglass_worker;
GRANT UPDATE ON hourglass.lanes, hourglass.lane_closures, hourglass.tenant_limits, hourglass.tenant_funds,
    hourglass.jobs, hourglass.attempts, hourglass.reservations, hourglass.calls TO hourglass_worker;
GRANT DELETE ON hourglass.jobs, hourglass.job_payloads, hourglass.job_results, hourglass.job_events, hourglass.quotes,
    hourglass.idempotency_keys, hourglass.audit_log TO hourglass_worker;
