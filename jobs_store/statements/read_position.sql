-- Where a job stands, for whoever waits for it or watches it: its state, its epoch, its last durable event, the worker
-- that runs it, and whether its log has reached its retention: then the last event is the first that is missing.
SELECT coalesce(j.state, d.state) AS state, coalesce(j.epoch, d.epoch) AS epoch, j.worker_address,
       coalesce(j.last_sequence, d.last_sequence) AS last_sequence,
       d.id IS NOT NULL AND NOT EXISTS (SELECT FROM hourglass.job_events e
                                        WHERE e.tenant_id = d.tenant_id AND e.job_id = d.id AND e.sequence = d.last_sequence
       ) AS trimmed
FROM (SELECT $1::text AS tenant_id, $2::uuid AS id) k
LEFT JOIN hourglass.jobs j ON j.tenant_id = k.tenant_id AND j.id = k.id
LEFT JOIN hourglass.finished_jobs d ON d.tenant_id = k.tenant_id AND d.id = k.id
WHERE j.id IS NOT NULL OR d.id IS NOT NULL
