-- Every decision of an operator that was carried out has its one row in the audit log. Retention takes the oldest rows of
-- that log first: as long as there is one that is an hour older than a decision, that of the decision has to be there.
SELECT o.tenant_id, o.request_id AS subject,
       format('%s was carried out at %s, with %s audit rows that say so', o.action, o.create_time, l.rows) AS description
FROM hourglass.operator_requests o
CROSS JOIN LATERAL (
    SELECT count(*) AS rows FROM hourglass.audit_log a
    WHERE a.tenant_id = o.tenant_id AND a.id > hourglass.first_id_of(o.create_time - interval '1 hour')
      AND a.id < hourglass.first_id_of(o.create_time + interval '1 hour')
      AND a.action = o.action AND a.request_id = o.request_id
) l
WHERE o.tenant_id = ANY ($1::text[])
  AND l.rows <> 1
  AND EXISTS (SELECT FROM hourglass.audit_log a
              WHERE a.tenant_id = o.tenant_id AND a.id < hourglass.first_id_of(o.create_time - interval '1 hour'))
