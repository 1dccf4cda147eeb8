-- Every funding has its one row in the audit log, with the same amount and actor. Retention takes the oldest rows of that
-- log first: as long as a tenant has one that is an hour older than a funding, that of the funding has to be there.
SELECT i.tenant_id, i.request_id AS subject,
       format('a funding of %s by %s at %s, with %s audit rows that say so', i.amount, i.actor, i.create_time, l.rows)
           AS description
FROM hourglass.fundings i
CROSS JOIN LATERAL (
    SELECT count(*) AS rows FROM hourglass.audit_log a
    WHERE a.tenant_id = i.tenant_id AND a.id > hourglass.first_id_of(i.create_time - interval '1 hour')
      AND a.id < hourglass.first_id_of(i.create_time + interval '1 hour')
      AND a.action = 'FUND_TENANT' AND a.request_id = i.request_id AND a.actor = i.actor
      AND (a.details ->> 'amount')::numeric = i.amount
) l
WHERE i.tenant_id = ANY ($1::text[])
  AND l.rows <> 1
  AND EXISTS (SELECT FROM hourglass.audit_log a
              WHERE a.tenant_id = i.tenant_id AND a.id < hourglass.first_id_of(i.create_time - interval '1 hour'))
