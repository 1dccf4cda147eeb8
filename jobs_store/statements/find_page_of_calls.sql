-- Finds where a page of short calls ends: the last of $5 of them after ($1, $2) and up to ($3, $4), and how many
-- they are. Reads the index alone, and takes no lock.
SELECT p.tenant_id, p.id, p.number
FROM (
    SELECT c.tenant_id, c.id, row_number() OVER (ORDER BY c.tenant_id, c.id) AS number
    FROM hourglass.calls c
    WHERE (c.tenant_id, c.id) > ($1, $2) AND (c.tenant_id, c.id) <= ($3, $4)
    ORDER BY c.tenant_id, c.id
    LIMIT $5
) p
ORDER BY p.number DESC
LIMIT 1
