-- Ends attempts whose job goes on: back to the queue, or HELD until somebody decides. Fenced by the token; a HELD row
-- keeps it. Refused once a cancel is in the row. What an ender without a token of its own decided on old facts is checked
-- again under the lock (due). Money stays reserved. Locks, each in order: jobs, lanes, tenant limits.
WITH input AS MATERIALIZED (
    SELECT r.*, clock_timestamp() AS now
    FROM jsonb_to_recordset($1) AS r (
        ordinal integer, tenant_id text, id uuid, run_token uuid, by_run boolean, due text, was_sent boolean,
        first_event integer, state text, state_cause text, delay double precision, crashed boolean, attempt jsonb,
        events jsonb
    )
), fenced AS MATERIALIZED (
    SELECT r.*, j.state AS prior_state, j.epoch AS prior_epoch, j.attempt_number AS current_attempt, j.lane, j.worker_id,
           j.claim_time, j.send_time, j.lease_until, j.cancel_request_time
    FROM input r
    JOIN hourglass.jobs j ON j.tenant_id = r.tenant_id AND j.id = r.id
    WHERE j.run_token = r.run_token
    ORDER BY j.tenant_id, j.id
    FOR NO KEY UPDATE OF j
), judged AS MATERIALIZED (
    SELECT f.*,
           CASE WHEN CASE f.due WHEN 'LEASE' THEN f.lease_until IS NULL OR f.lease_until > f.now
                                                  OR (f.send_time IS NOT NULL) <> f.was_sent
                                ELSE false END THEN 'NOT_DUE'
                WHEN f.cancel_request_time IS NOT NULL THEN 'CANCEL_REQUESTED'
                ELSE 'OK' END AS verdict,
           f.prior_state = 'RUNNING' AS attempt_ends,
           CASE WHEN f.by_run AND f.prior_state = 'RUNNING' THEN f.prior_epoch ELSE f.prior_epoch + 1 END AS epoch,
           CASE WHEN f.by_run AND f.prior_state = 'RUNNING' THEN f.first_event ELSE 1 END AS base
    FROM fenced f
), ending AS MATERIALIZED (
    SELECT j.*, a.outcome, a.cause, a.error_class, a.error_message, a.provider_request_id, a.counted, a.first_token_time,
           a.input_tokens, a.cached_input_tokens, a.output_tokens, a.cost, a.cost_basis, a.worst_case,
           (SELECT coalesce(max(e.sequence), 0) FROM hourglass.job_events e
            WHERE e.tenant_id = j.tenant_id AND e.job_id = j.id) AS last_sequence
    FROM judged j
    CROSS JOIN LATERAL jsonb_to_record(coalesce(j.attempt, '{}')) AS a (
        outcome text, cause text, error_class text, error_message text, provider_request_id text, counted boolean,
        first_token_time timestamptz, input_tokens bigint, cached_input_tokens bigint, output_tokens bigint, cost numeric,
        cost_basis text, worst_case numeric
    )
    WHERE j.verdict = 'OK'
), requeued AS (
    UPDATE hourglass.jobs j
    SET state = e.state, state_cause = e.state_cause, epoch = e.epoch, update_time = e.now,
        ready_time = CASE WHEN e.state = 'QUEUED' THEN e.now + make_interval(secs => e.delay) ELSE j.ready_time END,
        claim_order = CASE WHEN e.state = 'QUEUED'
                           THEN e.now + make_interval(secs => e.delay) - make_interval(mins => j.priority)
                           ELSE j.claim_order END,
        hold_until = CASE WHEN e.state = 'HELD' THEN e.now + make_interval(secs => e.delay) END,
        run_token = CASE WHEN e.state = 'HELD' THEN j.run_token END,
        worker_id = NULL, worker_address = NULL, claim_time = NULL, send_time = NULL, lease_until = NULL,
        counted_attempts = j.counted_attempts + CASE WHEN e.attempt_ends AND e.counted THEN 1 ELSE 0 END,
        crash_count = CASE WHEN e.crashed THEN j.crash_count + 1 WHEN e.outcome = 'NOT_SENT' THEN j.crash_count ELSE 0 END,
        known_cost = j.known_cost + CASE WHEN e.attempt_ends THEN e.cost ELSE 0 END,
        unknown_cost = j.unknown_cost + CASE WHEN e.attempt_ends THEN e.worst_case ELSE 0 END
    FROM ending e
    WHERE j.tenant_id = e.tenant_id AND j.id = e.id
    RETURNING j.tenant_id, j.id, j.ready_time
), ended_attempt AS (
    INSERT INTO hourglass.attempts
        (tenant_id, job_id, number, run_token, worker_id, claim_time, send_time, first_token_time, end_time, outcome,
         cause, error_class, error_message, provider_request_id, counted, input_tokens, cached_input_tokens,
         output_tokens, cost, cost_basis, worst_case)
    SELECT tenant_id, id, current_attempt, run_token, worker_id, claim_time,
           CASE WHEN outcome <> 'NOT_SENT' THEN send_time END, first_token_time, now, outcome, cause, error_class,
           error_message, provider_request_id, counted, input_tokens, cached_input_tokens, output_tokens, cost,
           cost_basis, worst_case
    FROM ending WHERE attempt_ends
), events AS (
    INSERT INTO hourglass.job_events (tenant_id, job_id, sequence, kind, event_time, attempt_number, text, attributes)
    SELECT e.tenant_id, e.id, (e.epoch << 32) + e.base + v.position - 1, v.event ->> 'kind',
           coalesce((v.event ->> 'time')::timestamptz, e.now),
           CASE WHEN v.event ->> 'kind' = 'STATE_CHANGED' THEN 0 ELSE e.current_attempt END, v.event ->> 'text',
           (v.event -> 'attributes')
               || CASE WHEN e.base + v.position = 2 THEN jsonb_build_object('last_durable_sequence', e.last_sequence)
                       ELSE '{}' END
               || CASE WHEN v.event ->> 'kind' = 'STATE_CHANGED' AND e.state = 'QUEUED'
                       THEN jsonb_build_object('ready_time', q.ready_time) ELSE '{}' END
    FROM ending e
    JOIN requeued q ON q.tenant_id = e.tenant_id AND q.id = e.id
    CROSS JOIN LATERAL jsonb_array_elements(e.events) WITH ORDINALITY AS v (event, position)
    ON CONFLICT (tenant_id, job_id, sequence) DO NOTHING
), locked_lanes AS MATERIALIZED (
    SELECT l.lane, n.freed
    FROM hourglass.lanes l
    JOIN (SELECT lane, count(*) AS freed FROM ending WHERE prior_state = 'RUNNING' GROUP BY lane) n ON n.lane = l.lane
    WHERE (SELECT count(*) FROM requeued) >= 0
    ORDER BY l.lane
    FOR NO KEY UPDATE OF l
), lane_count AS (
    UPDATE hourglass.lanes l SET running = l.running - n.freed FROM locked_lanes n WHERE l.lane = n.lane
), locked_limits AS MATERIALIZED (
    SELECT t.tenant_id, n.freed, n.back_in_queue
    FROM hourglass.tenant_limits t
    JOIN (SELECT tenant_id, count(*) FILTER (WHERE prior_state = 'RUNNING') AS freed,
                 count(*) FILTER (WHERE state = 'QUEUED') AS back_in_queue
          FROM ending GROUP BY tenant_id) n ON n.tenant_id = t.tenant_id
    WHERE (SELECT count(*) FROM locked_lanes) >= 0
    ORDER BY t.tenant_id
    FOR NO KEY UPDATE OF t
), limit_count AS (
    UPDATE hourglass.tenant_limits t SET running = t.running - n.freed, queued = t.queued + n.back_in_queue
    FROM locked_limits n WHERE t.tenant_id = n.tenant_id
)
SELECT r.ordinal, coalesce(j.verdict, 'LEASE_LOST') AS verdict,
       (j.epoch << 32) + j.base + jsonb_array_length(r.events) - 1 AS last_sequence
FROM input r
LEFT JOIN judged j ON j.ordinal = r.ordinal
ORDER BY r.ordinal
