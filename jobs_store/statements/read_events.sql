-- Events after a cursor, in order.
SELECT sequence, kind, event_time, attempt_number, text, attributes
FROM hourglass.job_events
WHERE tenant_id = $1 AND job_id = $2 AND sequence > $3
ORDER BY sequence
LIMIT $4
