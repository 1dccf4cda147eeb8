-- Opens a lane, whatever closed it, and ends its closures now. The caller has locked the lane.
WITH opened AS (
    UPDATE hourglass.lanes SET paused_time = NULL, park_until = NULL, park_cause = NULL
    WHERE lane = $1
    RETURNING lane
)
UPDATE hourglass.lane_closures c
SET end_time = greatest(c.start_time, clock_timestamp())
FROM opened o
WHERE c.lane = o.lane AND c.end_time > clock_timestamp()
