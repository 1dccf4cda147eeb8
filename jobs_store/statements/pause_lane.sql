-- Closes a lane until somebody resumes it, and opens a closure without an end: what waits in it does not get older. A
-- lane that is paused stays as it is. The caller has locked the lane.
WITH paused AS (
    UPDATE hourglass.lanes SET paused_time = clock_timestamp()
    WHERE lane = $1 AND paused_time IS NULL
    RETURNING lane, paused_time
)
INSERT INTO hourglass.lane_closures (lane, start_time, end_time, cause)
SELECT lane, paused_time, 'infinity', 'OPERATOR_PAUSE' FROM paused
