-- An open reservation has captured and released nothing; a settled one, to the last unit, what was set aside.
SELECT r.tenant_id, r.job_id::text AS subject,
       format('reservation %s of %s: captured %s, released %s, settled %s', r.number, r.amount, r.captured, r.released,
              coalesce(r.settle_time::text, 'never')) AS description
FROM hourglass.reservations r
WHERE (r.tenant_id, r.job_id) > ($1, $2) AND (r.tenant_id, r.job_id) <= ($3, $4)
  AND CASE WHEN r.settle_time IS NULL THEN r.captured <> 0 OR r.released <> 0 OR r.settle_cause IS NOT NULL
           ELSE r.amount <> r.captured + r.released OR least(r.captured, r.released) < 0 OR r.settle_cause IS NULL END
