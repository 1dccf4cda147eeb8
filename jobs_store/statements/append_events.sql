-- Appends events of runs to their logs, fenced by token and state: while a run holds the token of a RUNNING row only it
-- appends. On a HELD row it writes nothing, because that row's epoch is not the run's any more: a late result brings what
-- is left. Sent again after an unknown outcome, events are written once. Waits for job rows, in (tenant_id, id) order.
WITH input AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset($1) AS r (
        ordinal integer, tenant_id text, id uuid, run_token uuid, epoch bigint, attempt_number integer,
        first_event integer, events jsonb
    )
), fenced AS MATERIALIZED (
    SELECT r.*, j.state AS prior_state, j.last_sequence, j.cancel_request_time
    FROM input r
    JOIN hourglass.jobs j ON j.tenant_id = r.tenant_id AND j.id = r.id
    WHERE j.run_token = r.run_token AND (j.epoch = r.epoch OR j.state = 'HELD')
    ORDER BY j.tenant_id, j.id
    FOR NO KEY UPDATE OF j
), advanced AS (
    UPDATE hourglass.jobs j
    SET last_sequence = greatest(j.last_sequence, (f.epoch << 32) + f.first_event + jsonb_array_length(f.events) - 1)
    FROM fenced f
    WHERE f.prior_state = 'RUNNING' AND jsonb_array_length(f.events) > 0 AND j.tenant_id = f.tenant_id AND j.id = f.id
), appended AS (
    INSERT INTO hourglass.job_events (tenant_id, job_id, sequence, kind, event_time, attempt_number, text, attributes)
    SELECT f.tenant_id, f.id, (f.epoch << 32) + f.first_event + e.position - 1, e.event ->> 'kind',
           coalesce((e.event ->> 'time')::timestamptz, clock_timestamp()), f.attempt_number, e.event ->> 'text', e.event -> 'attributes'
    FROM fenced f CROSS JOIN LATERAL jsonb_array_elements(f.events) WITH ORDINALITY AS e (event, position)
    WHERE f.prior_state = 'RUNNING' AND (f.epoch << 32) + f.first_event + e.position - 1 > f.last_sequence
)
SELECT r.ordinal, CASE WHEN f.ordinal IS NULL THEN 'LEASE_LOST'
                       WHEN f.prior_state = 'HELD' THEN 'HELD'
                       WHEN f.cancel_request_time IS NOT NULL THEN 'CANCEL_REQUESTED'
                       ELSE 'OK' END AS verdict
FROM input r LEFT JOIN fenced f ON f.ordinal = r.ordinal
ORDER BY r.ordinal
