-- What operators find by: failed and held jobs in the order of tenants and ids. Both are few, so their partial indexes
-- cost nothing where jobs succeed. Unfinished jobs are found by the primary key.
CREATE INDEX finished_jobs_failed_index ON hourglass.finished_jobs (tenant_id, id) WHERE state = 'FAILED';
CREATE INDEX jobs_held_index ON hourglass.jobs (tenant_id, id) WHERE state = 'HELD';

-- What is decided about no single tenant (lanes, bulk calls) is decided as the role that works for all of them.
GRANT INSERT ON hourglass.operator_requests TO hourglass_worker;
