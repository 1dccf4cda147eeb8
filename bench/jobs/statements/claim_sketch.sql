-- Claims $1 jobs of the sketch. Waits for no row: SKIP LOCKED.
UPDATE hourglass.bench_sketch j
SET state = 'RUNNING', run_token = gen_random_uuid(), lease_until = clock_timestamp() + interval '30 s'
FROM (
    SELECT id FROM hourglass.bench_sketch WHERE state = 'QUEUED' ORDER BY id LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED
) c
WHERE j.id = c.id
RETURNING j.id, j.run_token, j.payload
