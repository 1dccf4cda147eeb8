-- Who asked to cancel a running job, for the run that has to say so in the job's log. Takes no lock: intent is written
-- once and never taken back. $1 tenant, $2 job, $3 token.
SELECT cancel_request_time, cancel_principal, cancel_reason
FROM hourglass.jobs
WHERE tenant_id = $1 AND id = $2 AND run_token = $3 AND cancel_request_time IS NOT NULL
