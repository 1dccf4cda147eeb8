-- The reservations of a job, by number, with what went beyond each.
SELECT r.number, r.amount, r.captured, r.released, r.create_time, r.settle_time, r.settle_cause,
       coalesce(o.amount, 0) AS overrun
FROM hourglass.reservations r
LEFT JOIN hourglass.overruns o
    ON o.tenant_id = r.tenant_id AND o.subject_id = r.job_id AND o.reservation_number = r.number
WHERE r.tenant_id = $1 AND r.job_id = $2
ORDER BY r.number
