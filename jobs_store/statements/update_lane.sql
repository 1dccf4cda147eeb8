-- Changes how many jobs of a lane may run at once; null removes the limit.
UPDATE hourglass.lanes SET max_running = $2 WHERE lane = $1
