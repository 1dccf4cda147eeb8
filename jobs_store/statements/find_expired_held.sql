-- Held jobs that nobody decided about in time. Takes no lock.
SELECT j.tenant_id, j.id, j.run_token
FROM hourglass.jobs j
WHERE j.state = 'HELD' AND j.hold_until < (SELECT clock_timestamp())
ORDER BY j.hold_until
LIMIT $1
