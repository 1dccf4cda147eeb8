-- The lanes in which jobs wait, ready or not: steps through the claim index, one probe a lane, so that its cost does not
-- grow with the queue. Takes no lock. Tells a worker of lanes that its patterns match and nobody has named.
WITH RECURSIVE waiting AS (
    (SELECT j.lane FROM hourglass.jobs j WHERE j.state = 'QUEUED' ORDER BY j.lane LIMIT 1)
    UNION ALL
    SELECT next.lane
    FROM waiting w
    CROSS JOIN LATERAL (
        SELECT j.lane FROM hourglass.jobs j WHERE j.state = 'QUEUED' AND j.lane > w.lane ORDER BY j.lane LIMIT 1
    ) next
)
SELECT lane FROM waiting
