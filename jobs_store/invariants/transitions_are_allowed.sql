-- Every change of state in a log is one of the table of transitions. $5: its arrows, source/target/cause.
WITH log AS (
    SELECT tenant_id, job_id AS id, sequence,
           concat_ws('/', coalesce(lag(attributes ->> 'state') OVER (PARTITION BY tenant_id, job_id ORDER BY sequence), ''),
                     attributes ->> 'state', attributes ->> 'cause') AS arrow
    FROM hourglass.job_events
    WHERE (tenant_id, job_id) > ($1, $2) AND (tenant_id, job_id) <= ($3, $4)
      AND kind = 'STATE_CHANGED'
)
SELECT l.tenant_id, l.id::text AS subject,
       string_agg(format('changed by %s in epoch %s', l.arrow, l.sequence >> 32), ', ' ORDER BY l.sequence) AS description
FROM log l
WHERE l.arrow <> ALL ($5::text[])
GROUP BY l.tenant_id, l.id
