-- Events of an epoch are numbered from 1 without a gap, but where deltas were erased.
WITH log AS (
    SELECT tenant_id, job_id AS id, sequence,
           lag(sequence) OVER (PARTITION BY tenant_id, job_id ORDER BY sequence) AS before
    FROM hourglass.job_events
    WHERE (tenant_id, job_id) > ($1, $2) AND (tenant_id, job_id) <= ($3, $4)
)
SELECT l.tenant_id, l.id::text AS subject,
       format('has gaps in its log, the first before event %s of epoch %s', min(l.sequence) & 4294967295,
              min(l.sequence) >> 32) AS description
FROM log l
LEFT JOIN hourglass.finished_jobs d
    ON d.tenant_id = l.tenant_id AND d.id = l.id AND (d.tenant_id, d.id) > ($1, $2) AND (d.tenant_id, d.id) <= ($3, $4)
WHERE d.erase_time IS NULL
  AND l.sequence <> CASE WHEN l.before >> 32 = l.sequence >> 32 THEN l.before + 1
                         ELSE ((l.sequence >> 32) << 32) + 1 END
GROUP BY l.tenant_id, l.id
