-- The other side: one wide table and nothing else, no attempts, no money, no events.
CREATE TABLE hourglass.bench_sketch (
    id        uuid PRIMARY KEY,
    state     text NOT NULL,
    payload   jsonb NOT NULL,
    run_token uuid,
    lease_until timestamptz,
    result    jsonb,
    end_time  timestamptz
);
CREATE INDEX bench_sketch_ready_index ON hourglass.bench_sketch (id) WHERE state = 'QUEUED';
GRANT SELECT, UPDATE ON hourglass.bench_sketch TO hourglass_worker
