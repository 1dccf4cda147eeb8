-- Finds where a page of jobs ends, by their facts: the last of $5 of them after ($1, $2) and up to ($3, $4), and how many
-- they are. Reads the index alone, and takes no lock.
SELECT p.tenant_id, p.id, p.number
FROM (
    SELECT f.tenant_id, f.id, row_number() OVER (ORDER BY f.tenant_id, f.id) AS number
    FROM hourglass.job_facts f
    WHERE (f.tenant_id, f.id) > ($1, $2) AND (f.tenant_id, f.id) <= ($3, $4)
    ORDER BY f.tenant_id, f.id
    LIMIT $5
) p
ORDER BY p.number DESC
LIMIT 1
