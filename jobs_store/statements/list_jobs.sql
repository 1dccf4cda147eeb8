-- A page of a tenant's jobs, newest first, without payloads. Unfinished and finished jobs are read apart, each from its
-- primary key from the cursor down, until the page is full, and merged. The facts of each are looked up one by one: joined
-- as a whole, all facts of the tenant would be read.
-- $1 tenant, $2 before this id, $3 states (null: all), $4 model (null: all), $5 created from, $6 created before, $7 rows.
WITH page AS MATERIALIZED (
    (SELECT j.tenant_id, j.id, j.state, j.state_cause, j.epoch, j.update_time, NULL::timestamptz AS end_time, j.ready_time,
            j.counted_attempts, j.cancel_request_time, NULL::timestamptz AS erase_time,
            CASE j.state WHEN 'QUEUED' THEN j.queue_deadline WHEN 'HELD' THEN j.hold_until END AS state_expire_time
     FROM hourglass.jobs j
     CROSS JOIN LATERAL (
         SELECT FROM hourglass.job_facts f
         WHERE f.tenant_id = j.tenant_id AND f.id = j.id AND ($4::text IS NULL OR f.model = $4)
           AND ($5::timestamptz IS NULL OR f.create_time >= $5) AND ($6::timestamptz IS NULL OR f.create_time < $6)
         LIMIT 1
     ) wanted
     WHERE j.tenant_id = $1 AND j.id < $2 AND ($3::text[] IS NULL OR j.state = ANY ($3))
     ORDER BY j.id DESC LIMIT $7)
    UNION ALL
    (SELECT d.tenant_id, d.id, d.state, d.state_cause, d.epoch, greatest(d.end_time, d.erase_time), d.end_time, d.ready_time, d.counted_attempts,
            d.cancel_request_time, d.erase_time, NULL::timestamptz AS state_expire_time
     FROM hourglass.finished_jobs d
     CROSS JOIN LATERAL (
         SELECT FROM hourglass.job_facts f
         WHERE f.tenant_id = d.tenant_id AND f.id = d.id AND ($4::text IS NULL OR f.model = $4)
           AND ($5::timestamptz IS NULL OR f.create_time >= $5) AND ($6::timestamptz IS NULL OR f.create_time < $6)
         LIMIT 1
     ) wanted
     WHERE d.tenant_id = $1 AND d.id < $2 AND ($3::text[] IS NULL OR d.state = ANY ($3))
     ORDER BY d.id DESC LIMIT $7)
    ORDER BY id DESC LIMIT $7
)
SELECT p.*, f.principal, f.model, f.provider, f.lane, f.create_time, f.labels, f.traceparent, f.price_basis,
       f.price_version, f.rate_card, f.quoted_amount, c.cost, c.worst_case, c.bases, v.captured, v.reserved
FROM page p
JOIN hourglass.job_facts f ON f.tenant_id = p.tenant_id AND f.id = p.id
CROSS JOIN LATERAL (
    SELECT coalesce(sum(a.cost), 0) AS cost, coalesce(sum(a.worst_case), 0) AS worst_case,
           coalesce(array_agg(DISTINCT a.cost_basis) FILTER (WHERE a.cost_basis IS NOT NULL), '{}') AS bases
    FROM hourglass.attempts a WHERE a.tenant_id = p.tenant_id AND a.job_id = p.id
) c
CROSS JOIN LATERAL (
    SELECT coalesce(sum(r.captured), 0) AS captured,
           coalesce(sum(r.amount) FILTER (WHERE r.settle_time IS NULL), 0) AS reserved
    FROM hourglass.reservations r WHERE r.tenant_id = p.tenant_id AND r.job_id = p.id
) v
ORDER BY p.id DESC
