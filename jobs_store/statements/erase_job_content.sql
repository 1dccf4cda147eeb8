-- Erases what a finished job was asked and what was answered: payload, result, and the deltas of its log; what it cost
-- stays. The caller has locked the finished row. Whoever takes a row opens the next epoch of its log: readers who have
-- seen the job's end, and those who come later, find one event more.
WITH payload AS (
    DELETE FROM hourglass.job_payloads WHERE tenant_id = $1 AND id = $2
), result AS (
    DELETE FROM hourglass.job_results WHERE tenant_id = $1 AND id = $2
), deltas AS (
    DELETE FROM hourglass.job_events WHERE tenant_id = $1 AND job_id = $2 AND kind = 'TOKEN_DELTA'
), before AS MATERIALIZED (
    SELECT last_sequence FROM hourglass.finished_jobs WHERE tenant_id = $1 AND id = $2
), erased AS (
    UPDATE hourglass.finished_jobs d
    SET erase_time = clock_timestamp(), epoch = d.epoch + 1, last_sequence = ((d.epoch + 1) << 32) + 1
    WHERE d.tenant_id = $1 AND d.id = $2 AND d.erase_time IS NULL
    RETURNING d.tenant_id, d.id, d.last_sequence, d.erase_time
)
INSERT INTO hourglass.job_events (tenant_id, job_id, sequence, kind, event_time, attempt_number, attributes)
SELECT e.tenant_id, e.id, e.last_sequence, 'CONTENT_ERASED', e.erase_time, 0,
       jsonb_build_object('principal', $3::text, 'last_durable_sequence', b.last_sequence)
FROM erased e CROSS JOIN before b
