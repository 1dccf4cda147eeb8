-- Makes a lane known in which jobs wait although no worker has named it yet, so that it can be paused before one does.
INSERT INTO hourglass.lanes (lane)
SELECT $1
WHERE EXISTS (SELECT FROM hourglass.jobs j WHERE j.state = 'QUEUED' AND j.lane = $1)
ON CONFLICT (lane) DO NOTHING
