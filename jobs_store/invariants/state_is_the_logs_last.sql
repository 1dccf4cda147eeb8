-- The state of a job and its cause are those of the last change of state in its log, where the log is whole.
WITH stands AS (
    SELECT tenant_id, id, state, state_cause, last_sequence FROM hourglass.jobs
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
    UNION ALL
    SELECT tenant_id, id, state, state_cause, last_sequence FROM hourglass.finished_jobs
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
), log AS (
    SELECT tenant_id, job_id AS id, max(sequence) AS last,
           max(sequence) FILTER (WHERE kind = 'STATE_CHANGED') AS changed
    FROM hourglass.job_events
    WHERE (tenant_id, job_id) > ($1, $2) AND (tenant_id, job_id) <= ($3, $4)
    GROUP BY tenant_id, job_id
)
SELECT s.tenant_id, s.id::text AS subject,
       format('is %s by %s, and its log says %s by %s', s.state, s.state_cause, e.attributes ->> 'state',
              e.attributes ->> 'cause') AS description
FROM stands s
JOIN log l ON l.tenant_id = s.tenant_id AND l.id = s.id AND l.last = s.last_sequence
LEFT JOIN hourglass.job_events e
    ON e.tenant_id = l.tenant_id AND e.job_id = l.id AND e.sequence = l.changed
    AND (e.tenant_id, e.job_id) > ($1, $2) AND (e.tenant_id, e.job_id) <= ($3, $4)
WHERE (s.state, s.state_cause) IS DISTINCT FROM (e.attributes ->> 'state', e.attributes ->> 'cause')
