-- Money is captured for what was accepted or for what a user cancelled, and for nothing else.
SELECT r.tenant_id, r.job_id::text AS subject,
       format('reservation %s: %s captured after %s', r.number, r.captured, coalesce(r.settle_cause, 'nothing'))
           AS description
FROM hourglass.reservations r
WHERE (r.tenant_id, r.job_id) > ($1, $2) AND (r.tenant_id, r.job_id) <= ($3, $4)
  AND r.captured <> 0 AND coalesce(r.settle_cause, '') NOT IN ('ACCEPTED', 'USER_CANCEL')
