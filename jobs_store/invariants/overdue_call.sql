-- No short call is unsettled long after its deadline and the grace of its server: the reaper settles such calls.
-- $5: how many seconds are long, $6 the grace in seconds.
SELECT c.tenant_id, c.id::text AS subject,
       format('a call whose deadline was %s, and %s of it still set aside', c.deadline, c.amount) AS description
FROM hourglass.calls c
WHERE (c.tenant_id, c.id) > ($1, $2) AND (c.tenant_id, c.id) <= ($3, $4)
  AND c.settle_time IS NULL AND c.deadline < (SELECT clock_timestamp() - make_interval(secs => $5::float8 + $6::float8))
