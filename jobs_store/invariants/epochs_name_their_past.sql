-- The first event of an epoch names the last durable one before it, and no other event does: readers drop what they have
-- seen beyond. Where deltas were erased, it may name one that is not there any more.
WITH log AS (
    SELECT tenant_id, job_id AS id, sequence, (attributes ->> 'last_durable_sequence')::bigint AS named,
           lag(sequence) OVER (PARTITION BY tenant_id, job_id ORDER BY sequence) AS before
    FROM hourglass.job_events
    WHERE (tenant_id, job_id) > ($1, $2) AND (tenant_id, job_id) <= ($3, $4)
)
SELECT l.tenant_id, l.id::text AS subject,
       format('has %s events that name what is before them wrongly, the first is %s of epoch %s', count(*),
              min(l.sequence) & 4294967295, min(l.sequence) >> 32) AS description
FROM log l
LEFT JOIN hourglass.finished_jobs d
    ON d.tenant_id = l.tenant_id AND d.id = l.id AND (d.tenant_id, d.id) > ($1, $2) AND (d.tenant_id, d.id) <= ($3, $4)
WHERE CASE WHEN l.sequence & 4294967295 <> 1 THEN l.named IS NOT NULL
           WHEN d.erase_time IS NULL THEN l.named IS DISTINCT FROM coalesce(l.before, 0)
           ELSE l.named IS NULL OR l.named < coalesce(l.before, 0) END
GROUP BY l.tenant_id, l.id
