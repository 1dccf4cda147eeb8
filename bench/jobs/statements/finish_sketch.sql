-- Ends claimed jobs of the sketch, fenced by their tokens. $1 ids, $2 tokens, $3 results, side by side.
UPDATE hourglass.bench_sketch j
SET state = 'SUCCEEDED', run_token = NULL, lease_until = NULL, result = r.result, end_time = clock_timestamp()
FROM unnest($1::uuid[], $2::uuid[], $3::jsonb[]) AS r (id, run_token, result)
WHERE j.id = r.id AND j.run_token = r.run_token
