-- Writes the intent to cancel into a running job's row, under the lock that lock_job took; the first one stands.
UPDATE hourglass.jobs
SET cancel_request_time = clock_timestamp(), cancel_principal = $3, cancel_reason = $4
WHERE tenant_id = $1 AND id = $2 AND cancel_request_time IS NULL
