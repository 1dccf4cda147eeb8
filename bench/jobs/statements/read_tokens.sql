-- Which run token each of the jobs $1 had in its one attempt.
SELECT run_token::text AS token, job_id FROM hourglass.attempts WHERE job_id = ANY ($1::uuid[])
