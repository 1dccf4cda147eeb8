-- Very many jobs whose retry has been due for hours, of few tenants, behind as many of a spec that is too new for whoever
-- claims: only what a claim looks at before it takes anything.
INSERT INTO hourglass.tenants (tenant_id, display_name) SELECT 'tenant-' || n, 'Tenant' FROM generate_series(0, 9) n;
INSERT INTO hourglass.tenant_limits (tenant_id, max_running, weight, queued)
SELECT tenant_id, 1000, 1 + right(tenant_id, 1)::integer, (:due + :newer) / 10 FROM hourglass.tenants;
INSERT INTO hourglass.lanes (lane) VALUES ('simulated/fast');
ANALYZE;
INSERT INTO hourglass.jobs
    (tenant_id, id, lane, spec_version, priority, state, state_cause, epoch, last_sequence, update_time, ready_time,
     queue_start_time, queue_deadline, attempt_number, counted_attempts)
SELECT 'tenant-' || n % 10,
       (lpad(to_hex(floor(extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid,
       'simulated/fast', CASE WHEN n <= :newer THEN 2 ELSE 1 END, n / 10 % 3, 'QUEUED',
       'TRANSIENT_ERROR', 4, (4::bigint << 32) + 3, t.ready, t.ready, t.ready, now() + interval '1 day', 1, 1
FROM generate_series(1, :newer + :due) n
CROSS JOIN LATERAL (
    SELECT now() - CASE WHEN n <= :newer THEN interval '1 day' ELSE interval '6 hours' * random() END AS ready
) t;
