-- The wake-up that a create sends. $1 lane.
SELECT pg_notify('hourglass_jobs_ready', $1)
