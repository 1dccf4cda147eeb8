-- A HELD job keeps the token of the attempt that it is held for, its last, whose outcome is unknown.
SELECT j.tenant_id, j.id::text AS subject,
       CASE WHEN a.number IS NULL THEN format('is HELD after attempt %s, of which there is no row', j.attempt_number)
            ELSE format('is HELD after attempt %s, which ended %s under %s token', j.attempt_number, a.outcome,
                        CASE WHEN a.run_token = j.run_token THEN 'the same' ELSE 'another' END) END AS description
FROM hourglass.jobs j
LEFT JOIN hourglass.attempts a
    ON a.tenant_id = j.tenant_id AND a.job_id = j.id AND a.number = j.attempt_number
    AND (a.tenant_id, a.job_id) > ($1, $2) AND (a.tenant_id, a.job_id) <= ($3, $4)
WHERE (j.tenant_id, j.id) > ($1, $2) AND (j.tenant_id, j.id) <= ($3, $4)
  AND j.state = 'HELD' AND (a.run_token, a.outcome) IS DISTINCT FROM (j.run_token, 'UNKNOWN')
