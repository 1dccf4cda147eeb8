-- What came of one attempt, for a run whose ending's commit it did not hear of.
SELECT outcome FROM hourglass.attempts WHERE tenant_id = $1 AND job_id = $2 AND number = $3 AND run_token = $4
