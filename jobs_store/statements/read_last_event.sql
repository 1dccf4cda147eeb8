-- The last event of one epoch that is durable, 0 when none is: for a run that wrote events and got no answer. Takes no lock:
-- once the row is HELD, or another's, nothing more is written in that epoch.
SELECT coalesce(max(sequence), 0) AS last_sequence
FROM hourglass.job_events
WHERE tenant_id = $1 AND job_id = $2 AND sequence > $3::bigint << 32 AND sequence < ($3::bigint + 1) << 32
