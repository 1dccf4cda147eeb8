-- What the row of a job repeats of its facts, lane and version of the spec, is the same there.
WITH stands AS (
    SELECT tenant_id, id, lane, spec_version FROM hourglass.jobs
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
    UNION ALL
    SELECT tenant_id, id, lane, spec_version FROM hourglass.finished_jobs
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
)
SELECT s.tenant_id, s.id::text AS subject,
       format('has lane %s and version %s, its facts %s and %s', s.lane, s.spec_version, f.lane, f.spec_version)
           AS description
FROM stands s
JOIN hourglass.job_facts f
    ON f.tenant_id = s.tenant_id AND f.id = s.id AND (f.tenant_id, f.id) > ($1, $2) AND (f.tenant_id, f.id) <= ($3, $4)
WHERE (s.lane, s.spec_version) <> (f.lane, f.spec_version)
