-- One job, unfinished or finished: exactly one of the two rows exists at any snapshot. The cost is the sum over ended
-- attempts, the charge the sum over reservations.
SELECT f.tenant_id, f.id, f.principal, f.model, f.provider, f.lane, f.create_time, f.labels, f.traceparent,
       f.create_ledger, f.price_basis, f.price_version, f.rate_card, f.quoted_amount, f.attempt_worst_case,
       f.max_attempts, f.max_output_tokens, f.attempt_timeout, f.queue_timeout, f.schedule_time, f.unknown_outcome_policy,
       f.max_charge, f.provider_cost_limit,
       coalesce(j.state, d.state) AS state, coalesce(j.state_cause, d.state_cause) AS state_cause,
       coalesce(j.epoch, d.epoch) AS epoch, coalesce(j.priority, d.priority) AS priority,
       coalesce(j.update_time, greatest(d.end_time, d.erase_time)) AS update_time, d.end_time, coalesce(j.ready_time, d.ready_time) AS ready_time,
       coalesce(j.counted_attempts, d.counted_attempts) AS counted_attempts,
       coalesce(j.cancel_request_time, d.cancel_request_time) AS cancel_request_time, d.erase_time,
       CASE j.state WHEN 'QUEUED' THEN j.queue_deadline WHEN 'HELD' THEN j.hold_until END AS state_expire_time,
       j.attempt_number AS running_number, j.worker_id, j.worker_address, j.claim_time, j.send_time,
       c.cost, c.worst_case, c.bases, v.captured, v.reserved
FROM hourglass.job_facts f
LEFT JOIN hourglass.jobs j ON j.tenant_id = f.tenant_id AND j.id = f.id
LEFT JOIN hourglass.finished_jobs d ON d.tenant_id = f.tenant_id AND d.id = f.id
CROSS JOIN LATERAL (
    SELECT coalesce(sum(a.cost), 0) AS cost, coalesce(sum(a.worst_case), 0) AS worst_case,
           coalesce(array_agg(DISTINCT a.cost_basis) FILTER (WHERE a.cost_basis IS NOT NULL), '{}') AS bases
    FROM hourglass.attempts a WHERE a.tenant_id = f.tenant_id AND a.job_id = f.id
) c
CROSS JOIN LATERAL (
    SELECT coalesce(sum(r.captured), 0) AS captured,
           coalesce(sum(r.amount) FILTER (WHERE r.settle_time IS NULL), 0) AS reserved
    FROM hourglass.reservations r WHERE r.tenant_id = f.tenant_id AND r.job_id = f.id
) v
WHERE f.tenant_id = $1 AND f.id = $2 AND (j.id IS NOT NULL OR d.id IS NOT NULL)
