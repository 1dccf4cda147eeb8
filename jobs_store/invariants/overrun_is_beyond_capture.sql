-- An overrun is what went beyond a reservation, or a call, of which all was captured.
SELECT o.tenant_id, o.subject_id::text AS subject,
       format('has an overrun of %s beyond %s, of which %s was captured', o.amount, coalesce(r.amount, c.amount),
              coalesce(r.captured, c.captured)) AS description
FROM hourglass.overruns o
-- One by one: overruns are few, and between two jobs there may be very many calls.
LEFT JOIN LATERAL (
    SELECT v.amount, v.captured FROM hourglass.reservations v
    WHERE v.tenant_id = o.tenant_id AND v.job_id = o.subject_id AND v.number = o.reservation_number OFFSET 0
) r ON true
LEFT JOIN LATERAL (
    SELECT k.amount, k.captured FROM hourglass.calls k
    WHERE k.tenant_id = o.tenant_id AND k.id = o.subject_id AND o.reservation_number = 1 OFFSET 0
) c ON true
WHERE (o.tenant_id, o.subject_id) > ($1, $2) AND (o.tenant_id, o.subject_id) <= ($3, $4)
  AND coalesce(r.captured = r.amount, c.captured = c.amount) IS NOT TRUE
