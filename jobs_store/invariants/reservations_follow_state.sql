-- Reservations of a job are numbered from 1, and the row of the job names the last one. It is open exactly while the job is
-- unfinished, and then it alone is.
WITH stands AS (
    SELECT tenant_id, id, reservation_number, 1 AS open FROM hourglass.jobs
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
    UNION ALL
    SELECT tenant_id, id, reservation_number, 0 FROM hourglass.finished_jobs
    WHERE (tenant_id, id) > ($1, $2) AND (tenant_id, id) <= ($3, $4)
), reserved AS (
    SELECT tenant_id, job_id AS id, count(*) AS all, max(number) AS last,
           count(*) FILTER (WHERE settle_time IS NULL) AS open,
           max(number) FILTER (WHERE settle_time IS NULL) AS last_open
    FROM hourglass.reservations
    WHERE (tenant_id, job_id) > ($1, $2) AND (tenant_id, job_id) <= ($3, $4)
    GROUP BY tenant_id, job_id
)
SELECT s.tenant_id, s.id::text AS subject,
       format('names reservation %s, has %s up to number %s, and %s open ones where %s should be', s.reservation_number,
              coalesce(r.all, 0), coalesce(r.last, 0), coalesce(r.open, 0), s.open) AS description
FROM stands s
LEFT JOIN reserved r ON r.tenant_id = s.tenant_id AND r.id = s.id
WHERE r.id IS NULL OR r.all <> r.last OR r.last <> s.reservation_number OR r.open <> s.open
   OR r.last_open <> r.last
