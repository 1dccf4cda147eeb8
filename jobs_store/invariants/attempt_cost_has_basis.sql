-- What an attempt cost is known on some basis, or has a worst case because it is not; what was not sent cost nothing.
SELECT a.tenant_id, a.job_id::text AS subject,
       format('attempt %s ended %s and costs %s, at worst %s, known as %s', a.number, a.outcome, a.cost, a.worst_case,
              coalesce(a.cost_basis, 'nothing')) AS description
FROM hourglass.attempts a
WHERE (a.tenant_id, a.job_id) > ($1, $2) AND (a.tenant_id, a.job_id) <= ($3, $4)
  AND (
      (a.cost <> 0 AND coalesce(a.cost_basis, 'UNKNOWN') = 'UNKNOWN')
      OR (a.worst_case <> 0 AND a.cost_basis IS DISTINCT FROM 'UNKNOWN')
      OR (a.outcome = 'UNKNOWN' AND (a.cost_basis IS NULL OR a.send_time IS NULL))
      OR (a.outcome = 'NOT_SENT' AND (a.send_time IS NOT NULL OR a.counted OR a.cost_basis IS NOT NULL))
  )
