-- What decisions about jobs depend on, as it is now, for a dry run: by job its state, content and costs, what its tenant
-- has, and what the decision's request_id was used for. Takes no lock and changes nothing; the decisions themselves find
-- all of this under their locks. $1 tenants, $2 jobs, $3 request_ids, side by side.
SELECT r.ordinal, coalesce(j.state, d.state) AS state, d.erase_time IS NOT NULL AS erased, payload.kept AS has_payload,
       spent.cost + f.attempt_worst_case <= f.provider_cost_limit AS cost_limit_left, f.quoted_amount,
       l.max_queued - l.queued AS queue_room, u.available, o.action AS known_action, o.request_digest AS known_digest
FROM unnest($1::text[], $2::uuid[], $3::text[]) WITH ORDINALITY AS r (tenant_id, id, request_id, ordinal)
JOIN hourglass.job_facts f ON f.tenant_id = r.tenant_id AND f.id = r.id
LEFT JOIN hourglass.jobs j ON j.tenant_id = r.tenant_id AND j.id = r.id
LEFT JOIN hourglass.finished_jobs d ON d.tenant_id = r.tenant_id AND d.id = r.id
CROSS JOIN LATERAL (
    SELECT EXISTS (SELECT FROM hourglass.job_payloads p WHERE p.tenant_id = r.tenant_id AND p.id = r.id OFFSET 0) AS kept
) payload
CROSS JOIN LATERAL (
    SELECT coalesce(sum(a.cost + a.worst_case), 0) AS cost
    FROM hourglass.attempts a WHERE a.tenant_id = r.tenant_id AND a.job_id = r.id
) spent
JOIN hourglass.tenant_limits l ON l.tenant_id = r.tenant_id
JOIN hourglass.tenant_funds u ON u.tenant_id = r.tenant_id
LEFT JOIN hourglass.operator_requests o ON o.tenant_id = r.tenant_id AND o.request_id = r.request_id
ORDER BY r.ordinal
