-- $1 jobs of the sketch.
INSERT INTO hourglass.bench_sketch (id, state, payload)
SELECT uuidv7(), 'QUEUED', '[{"role": "user", "content": "Say hello."}]' FROM generate_series(1, $1::bigint)
