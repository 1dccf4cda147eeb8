-- Drops the jobs that were claimed only to see how long a claim takes; what is finished stays.
TRUNCATE hourglass.jobs;
UPDATE hourglass.tenant_limits SET queued = 0, running = 0;
UPDATE hourglass.lanes SET running = 0, paused_time = clock_timestamp()
