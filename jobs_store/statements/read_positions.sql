-- Where many jobs stand, each as read_position says it, for the one timer of a process: by key, in one statement. $1: their
-- tenants, $2: their ids, in the same order. Locks nothing.
SELECT k.tenant_id, k.id, coalesce(j.state, d.state) AS state, coalesce(j.epoch, d.epoch) AS epoch, j.worker_address,
       coalesce(j.last_sequence, d.last_sequence) AS last_sequence, false AS trimmed
FROM unnest($1::text[], $2::uuid[]) AS k (tenant_id, id)
LEFT JOIN LATERAL (SELECT q.id, q.state, q.epoch, q.worker_address, q.last_sequence
                   FROM hourglass.jobs q WHERE q.tenant_id = k.tenant_id AND q.id = k.id OFFSET 0) j ON true
LEFT JOIN LATERAL (SELECT f.id, f.state, f.epoch, f.last_sequence
                   FROM hourglass.finished_jobs f WHERE f.tenant_id = k.tenant_id AND f.id = k.id OFFSET 0) d ON j.id IS NULL
WHERE j.id IS NOT NULL OR d.id IS NOT NULL
