-- Closes a lane for all workers for a while; a later end wins. $1 lane, $2 seconds, $3 cause.
WITH parked AS (
    UPDATE hourglass.lanes
    SET park_until = clock_timestamp() + make_interval(secs => $2), park_cause = $3
    WHERE lane = $1 AND coalesce(park_until < clock_timestamp() + make_interval(secs => $2), true)
    RETURNING lane, park_until
)
INSERT INTO hourglass.lane_closures (lane, end_time, cause)
SELECT lane, park_until, $3 FROM parked
