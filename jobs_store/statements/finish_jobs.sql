-- Ends jobs for good: every terminal path goes through here, a run's acceptance or failure, a cancel, an expiry, a
-- takeover, so the money of a job is settled in one place, once, in the transaction that ends it. Fenced by the token as
-- the ender knows it (none for a QUEUED job). What an ender without a token of its own decided on old facts is checked
-- again under the lock (due). Once a cancel is in the row nothing but CANCELLED is taken.
-- Locks, each in (tenant_id, id) order: jobs, reservations, lanes, tenant limits, tenant funds.
WITH input AS MATERIALIZED (
    SELECT r.*, clock_timestamp() AS now
    FROM jsonb_to_recordset($1) AS r (
        ordinal integer, tenant_id text, id uuid, run_token uuid, by_run boolean, due text, was_sent boolean,
        first_event integer, state text, state_cause text, charge numeric, cancel_principal text, cancel_reason text,
        attempt jsonb, result jsonb, events jsonb
    )
), fenced AS MATERIALIZED (
    SELECT r.*, j.state AS prior_state, j.epoch AS prior_epoch, j.attempt_number AS current_attempt, j.lane,
           j.spec_version, j.priority, j.ready_time, j.worker_id, j.claim_time, j.send_time, j.lease_until, j.hold_until,
           j.queue_deadline, j.counted_attempts, j.reservation_number,
           j.cancel_request_time, j.cancel_principal AS asked_by, j.cancel_reason AS asked_why
    FROM input r
    JOIN hourglass.jobs j ON j.tenant_id = r.tenant_id AND j.id = r.id
    WHERE j.run_token IS NOT DISTINCT FROM r.run_token
    ORDER BY j.tenant_id, j.id
    FOR NO KEY UPDATE OF j
), judged AS MATERIALIZED (
    SELECT f.*,
           CASE WHEN CASE f.due WHEN 'LEASE' THEN f.lease_until IS NULL OR f.lease_until > f.now
                                                  OR (f.send_time IS NOT NULL) <> f.was_sent
                                WHEN 'QUEUE' THEN f.prior_state <> 'QUEUED' OR f.queue_deadline > f.now
                                WHEN 'HOLD' THEN f.hold_until IS NULL OR f.hold_until > f.now
                                ELSE false END THEN 'NOT_DUE'
                WHEN f.cancel_request_time IS NOT NULL AND f.state <> 'CANCELLED' THEN 'CANCEL_REQUESTED'
                ELSE 'OK' END AS verdict,
           f.prior_state = 'RUNNING' AND f.attempt IS NOT NULL AS attempt_ends,
           f.prior_state = 'HELD' AND f.by_run AS came_late,
           CASE WHEN f.by_run AND f.prior_state = 'RUNNING' THEN f.prior_epoch ELSE f.prior_epoch + 1 END AS epoch,
           CASE WHEN f.by_run AND f.prior_state = 'RUNNING' THEN f.first_event WHEN f.by_run THEN 2 ELSE 1 END AS base
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
), removed AS (
    DELETE FROM hourglass.jobs j USING ending e WHERE j.tenant_id = e.tenant_id AND j.id = e.id
), late_attempt AS (
    UPDATE hourglass.attempts t
    SET end_time = e.now, outcome = e.outcome, cause = e.cause, error_class = e.error_class,
        error_message = e.error_message, provider_request_id = e.provider_request_id,
        first_token_time = e.first_token_time, input_tokens = e.input_tokens,
        cached_input_tokens = e.cached_input_tokens, output_tokens = e.output_tokens, cost = e.cost,
        cost_basis = e.cost_basis, worst_case = e.worst_case
    FROM ending e
    WHERE e.came_late AND t.tenant_id = e.tenant_id AND t.job_id = e.id AND t.number = e.current_attempt
      AND t.run_token = e.run_token
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
), finished AS (
    INSERT INTO hourglass.finished_jobs
        (tenant_id, id, lane, spec_version, priority, state, state_cause, epoch, end_time, ready_time, attempt_number,
         counted_attempts, reservation_number, cancel_request_time, cancel_principal, cancel_reason)
    SELECT e.tenant_id, e.id, e.lane, e.spec_version, e.priority, e.state, e.state_cause, e.epoch, e.now, e.ready_time,
           e.current_attempt, e.counted_attempts + CASE WHEN e.attempt_ends AND e.counted THEN 1 ELSE 0 END,
           e.reservation_number,
           CASE WHEN e.state = 'CANCELLED' THEN coalesce(e.cancel_request_time, e.now) END,
           CASE WHEN e.state = 'CANCELLED' THEN coalesce(e.asked_by, e.cancel_principal) END,
           CASE WHEN e.state = 'CANCELLED' THEN coalesce(e.asked_why, e.cancel_reason) END
    FROM ending e
), accepted AS (
    INSERT INTO hourglass.job_results
        (tenant_id, id, attempt_number, accept_time, finish_reason, provider_model, input_tokens, cached_input_tokens,
         output_tokens, text)
    SELECT e.tenant_id, e.id, e.current_attempt, e.now, a.finish_reason, a.provider_model, e.input_tokens,
           e.cached_input_tokens, e.output_tokens, a.text
    FROM ending e
    CROSS JOIN LATERAL jsonb_to_record(e.result) AS a (finish_reason text, provider_model text, text text)
    WHERE e.result IS NOT NULL
), settled AS (
    UPDATE hourglass.reservations v
    SET captured = least(v.amount, e.charge), released = v.amount - least(v.amount, e.charge), settle_time = e.now,
        settle_cause = e.state_cause
    FROM ending e
    WHERE v.tenant_id = e.tenant_id AND v.job_id = e.id AND v.number = e.reservation_number AND v.settle_time IS NULL
    RETURNING v.tenant_id, v.job_id, v.number, v.amount, v.captured, v.released, e.charge, e.now
), overrun AS (
    INSERT INTO hourglass.overruns (tenant_id, subject_id, reservation_number, amount, create_time)
    SELECT tenant_id, job_id, number, charge - amount, now FROM settled WHERE charge > amount
), events AS (
    INSERT INTO hourglass.job_events (tenant_id, job_id, sequence, kind, event_time, attempt_number, text, attributes)
    SELECT e.tenant_id, e.id, (e.epoch << 32) + e.base + v.position - 1, v.event ->> 'kind',
           coalesce((v.event ->> 'time')::timestamptz, e.now),
           CASE WHEN v.event ->> 'kind' = 'STATE_CHANGED' THEN 0 ELSE e.current_attempt END, v.event ->> 'text',
           (v.event -> 'attributes')
               || CASE WHEN e.base + v.position = 2 THEN jsonb_build_object('last_durable_sequence', e.last_sequence)
                       ELSE '{}' END
               || CASE WHEN v.event ->> 'kind' = 'STATE_CHANGED' THEN jsonb_build_object('captured', s.captured::text)
                       ELSE '{}' END
    FROM ending e
    JOIN settled s ON s.tenant_id = e.tenant_id AND s.job_id = e.id
    CROSS JOIN LATERAL jsonb_array_elements(e.events) WITH ORDINALITY AS v (event, position)
    ON CONFLICT (tenant_id, job_id, sequence) DO NOTHING
), late_event AS (
    INSERT INTO hourglass.job_events (tenant_id, job_id, sequence, kind, event_time, attempt_number, attributes)
    SELECT tenant_id, id, (epoch << 32) + 1, 'STATE_CHANGED', now, 0,
           jsonb_build_object('state', 'RUNNING', 'cause', 'LATE_RESULT', 'last_durable_sequence', last_sequence)
    FROM ending WHERE came_late
), locked_lanes AS MATERIALIZED (
    SELECT l.lane, n.freed
    FROM hourglass.lanes l
    JOIN (SELECT lane, count(*) AS freed FROM ending WHERE prior_state = 'RUNNING' GROUP BY lane) n ON n.lane = l.lane
    WHERE (SELECT count(*) FROM settled) >= 0
    ORDER BY l.lane
    FOR NO KEY UPDATE OF l
), lane_count AS (
    UPDATE hourglass.lanes l SET running = l.running - n.freed FROM locked_lanes n WHERE l.lane = n.lane
), locked_limits AS MATERIALIZED (
    SELECT t.tenant_id, n.freed, n.left_queue
    FROM hourglass.tenant_limits t
    JOIN (SELECT tenant_id, count(*) FILTER (WHERE prior_state = 'RUNNING') AS freed,
                 count(*) FILTER (WHERE prior_state = 'QUEUED') AS left_queue
          FROM ending GROUP BY tenant_id) n ON n.tenant_id = t.tenant_id
    WHERE (SELECT count(*) FROM locked_lanes) >= 0
    ORDER BY t.tenant_id
    FOR NO KEY UPDATE OF t
), limit_count AS (
    UPDATE hourglass.tenant_limits t SET running = t.running - n.freed, queued = t.queued - n.left_queue
    FROM locked_limits n WHERE t.tenant_id = n.tenant_id
), locked_funds AS MATERIALIZED (
    SELECT f.tenant_id, n.amount, n.captured, n.released
    FROM hourglass.tenant_funds f
    JOIN (SELECT tenant_id, sum(amount) AS amount, sum(captured) AS captured, sum(released) AS released
          FROM settled GROUP BY tenant_id) n ON n.tenant_id = f.tenant_id
    WHERE (SELECT count(*) FROM locked_limits) >= 0
    ORDER BY f.tenant_id
    FOR NO KEY UPDATE OF f
), funds AS (
    UPDATE hourglass.tenant_funds f
    SET available = f.available + n.released, reserved = f.reserved - n.amount, captured = f.captured + n.captured
    FROM locked_funds n WHERE f.tenant_id = n.tenant_id
)
SELECT r.ordinal, coalesce(j.verdict, 'LEASE_LOST') AS verdict, coalesce(s.captured, 0) AS captured,
       s.job_id IS NOT NULL AS settled, (j.epoch << 32) + j.base + jsonb_array_length(r.events) - 1 AS last_sequence
FROM input r
LEFT JOIN judged j ON j.ordinal = r.ordinal
LEFT JOIN settled s ON s.tenant_id = r.tenant_id AND s.job_id = r.id
ORDER BY r.ordinal
