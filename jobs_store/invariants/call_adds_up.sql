-- An open call has captured and released nothing and has no outcome; a settled one, to the last unit, what was set aside,
-- and its outcome. What was not sent is not charged.
SELECT c.tenant_id, c.id::text AS subject,
       format('a call of %s: captured %s, released %s, ended %s, settled %s', c.amount, c.captured, c.released,
              coalesce(c.outcome, 'never'), coalesce(c.settle_time::text, 'never')) AS description
FROM hourglass.calls c
WHERE (c.tenant_id, c.id) > ($1, $2) AND (c.tenant_id, c.id) <= ($3, $4)
  AND CASE WHEN c.settle_time IS NULL THEN c.captured <> 0 OR c.released <> 0 OR c.outcome IS NOT NULL
           ELSE c.amount <> c.captured + c.released OR least(c.captured, c.released) < 0 OR c.outcome IS NULL
                OR c.cause IS NULL OR (c.outcome = 'NOT_SENT' AND (c.captured <> 0 OR c.cost <> 0)) END
