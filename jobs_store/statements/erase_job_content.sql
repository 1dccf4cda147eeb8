-- Erases what a finished job was asked and what was answered: payload, result, and the deltas of its log; what it cost
-- stays. The caller has locked the finished row. Whoever takes a row opens the next epoch of its log: readers who have
-- seen the job's end, and those who come later, find one event more. A log that has reached its retention stays as it is.
WITH payload AS (
    DELETE FROM hourglass.job_payloads WHERE tenant_id = $1 AND id = $2
), result AS (
    DELETE FROM hourglass.job_results WHERE tenant_id = $1 AND id = $2
), deltas AS (
    DELETE FROM hourglass.job_events WHERE tenant_id = $1 AND job_id = $2 AND kind = 'TOKEN_DELTA'
), before AS MATERIALIZED (
    SELECT d.last_sequence, EXISTS (SELECT FROM hourglass.job_events e
                                    WHERE e.tenant_id = $1 AND e.job_id = $2 AND e.sequence = d.last_sequence) AS has_log
    FROM hourglass.finished_jobs d WHERE d.tenant_id = $1 AND d.id = $2
), erased AS (
    UPDATE hourglass.finished_jobs d
    SET erase_time = clock_timestamp(),
        epoch = CASE WHEN b.has_log THEN d.epoch + 1 ELSE d.epoch END,
        last_sequence = CASE WHEN b.has_log THEN ((d.epoch + 1) << 32) + 1 ELSE d.last_sequence END
    FROM before b
    WHERE d.tenant_id = $1 AND d.id = $2 AND d.erase_time IS NULL
    RETURNING d.tenant_id, d.id, d.last_sequence, d.erase_time, b.last_sequence AS prior_sequence, b.has_log
)
INSERT INTO hourglass.job_events (tenant_id, job_id, sequence, kind, event_time, attempt_number, attributes)
SELECT tenant_id, id, last_sequence, 'CONTENT_ERASED', erase_time, 0,
       jsonb_build_object('principal', $3::text, 'last_durable_sequence', prior_sequence)
FROM erased
WHERE has_log
