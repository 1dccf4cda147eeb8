-- Calls that nobody settled although their deadline lies $2 seconds back: their server died, or could not reach the
-- database. Locks them and waits for none: those whose rows somebody has locked are being settled.
SELECT c.tenant_id, c.id
FROM hourglass.calls c
WHERE c.settle_time IS NULL AND c.deadline < (SELECT clock_timestamp() - make_interval(secs => $2))
ORDER BY c.deadline
LIMIT $1
FOR NO KEY UPDATE SKIP LOCKED
