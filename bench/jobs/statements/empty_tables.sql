-- Every round begins with no jobs at all; tenants keep their money, which is plenty.
TRUNCATE hourglass.jobs, hourglass.job_facts, hourglass.job_payloads, hourglass.job_results, hourglass.finished_jobs,
    hourglass.attempts, hourglass.job_events, hourglass.reservations, hourglass.idempotency_keys;
UPDATE hourglass.tenant_limits SET queued = 0, running = 0;
UPDATE hourglass.tenant_funds SET available = funded, reserved = 0, captured = 0;
UPDATE hourglass.lanes SET running = 0, paused_time = clock_timestamp()
