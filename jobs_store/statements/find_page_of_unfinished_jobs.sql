-- Finds where a page of unfinished jobs ends: the last of $5 of them after ($1, $2) and up to ($3, $4), and how many
-- they are. Reads the index alone, and takes no lock.
SELECT p.tenant_id, p.id, p.number
FROM (
    SELECT j.tenant_id, j.id, row_number() OVER (ORDER BY j.tenant_id, j.id) AS number
    FROM hourglass.jobs j
    WHERE (j.tenant_id, j.id) > ($1, $2) AND (j.tenant_id, j.id) <= ($3, $4)
    ORDER BY j.tenant_id, j.id
    LIMIT $5
) p
ORDER BY p.number DESC
LIMIT 1
