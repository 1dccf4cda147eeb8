-- Puts all jobs of lane $1 into lane $2, which is open and which no worker serves.
WITH lane AS (
    INSERT INTO hourglass.lanes (lane) VALUES ($2) ON CONFLICT (lane) DO UPDATE SET running = 0, paused_time = NULL
)
UPDATE hourglass.jobs SET lane = $2 WHERE lane = $1
