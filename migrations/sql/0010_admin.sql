-- What operators find by: failed and held jobs in the order of tenants and ids. Both are few, so their partial indexes
-- cost nothing where jobs succeed. Unfinished jobs are found by the primary key. A held job is told by its hold_until here:
-- by its state the planner, whose statistics know of no held jobs, could as well take the index that the reaper uses.
CREATE INDEX finished_jobs_failed_index ON hourglass.finished_jobs (tenant_id, id) WHERE state = 'FAILED';
CREATE INDEX jobs_held_index ON hourglass.jobs (tenant_id, id) WHERE hold_until IS NOT NULL;

-- What is decided about no single tenant (lanes, bulk calls) is decided as the role that works for all of them.
GRANT INSERT ON hourglass.operator_requests TO hourglass_worker;
