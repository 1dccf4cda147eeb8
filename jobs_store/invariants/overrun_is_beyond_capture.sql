-- An overrun is what went beyond a reservation, or a call, of which all was captured.
SELECT o.tenant_id, o.subject_id::text AS subject,
       format('has an overrun of %s beyond %s, of which %s was captured', o.amount, coalesce(r.amount, c.amount),
              coalesce(r.captured, c.captured)) AS description
FROM hourglass.overruns o
LEFT JOIN hourglass.reservations r
    ON r.tenant_id = o.tenant_id AND r.job_id = o.subject_id AND r.number = o.reservation_number
    AND (r.tenant_id, r.job_id) > ($1, $2) AND (r.tenant_id, r.job_id) <= ($3, $4)
LEFT JOIN hourglass.calls c
    ON c.tenant_id = o.tenant_id AND c.id = o.subject_id AND o.reservation_number = 1
    AND (c.tenant_id, c.id) > ($1, $2) AND (c.tenant_id, c.id) <= ($3, $4)
WHERE (o.tenant_id, o.subject_id) > ($1, $2) AND (o.tenant_id, o.subject_id) <= ($3, $4)
  AND coalesce(r.captured = r.amount, c.captured = c.amount) IS NOT TRUE
