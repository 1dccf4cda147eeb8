-- The row of a job names the last event of its log and the epoch of that event. A log loses its end first when retention
-- takes it, which waits until the payload has gone: from then on it may end earlier, never later.
WITH stands AS (
    SELECT tenant_id, id, epoch, last_sequence, true AS unfinished FROM hourglass.jobs
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
    UNION ALL
    SELECT tenant_id, id, epoch, last_sequence, false FROM hourglass.finished_jobs
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
), log AS (
    SELECT tenant_id, job_id AS id, max(sequence) AS last FROM hourglass.job_events
    WHERE (tenant_id, job_id) > ($1, $2) AND (tenant_id, job_id) <= ($3, $4)
    GROUP BY tenant_id, job_id
)
SELECT s.tenant_id, s.id::text AS subject,
       format('names event %s of epoch %s as the last, and its log ends with %s of epoch %s',
              s.last_sequence & 4294967295, s.epoch, coalesce(l.last & 4294967295, 0), coalesce(l.last >> 32, 0))
           AS description
FROM stands s
LEFT JOIN log l ON l.tenant_id = s.tenant_id AND l.id = s.id
LEFT JOIN hourglass.job_payloads p
    ON p.tenant_id = s.tenant_id AND p.id = s.id AND (p.tenant_id, p.id) > ($1, $2) AND (p.tenant_id, p.id) <= ($3, $4)
WHERE s.last_sequence >> 32 <> s.epoch OR l.last > s.last_sequence
   OR ((s.unfinished OR p.id IS NOT NULL) AND l.last IS DISTINCT FROM s.last_sequence)
