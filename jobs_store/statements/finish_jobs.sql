-- Ends jobs for good: every terminal path goes through here, a run's acceptance or failure, a cancel, an expiry, a
-- takeover, so the money of a job is settled in one place, once, in the transaction that ends it. Fenced by the token as
-- the ender knows it (none for a QUEUED job). What an ender without a token of its own decided on old facts is checked
-- again under the lock (due). Once a cancel is in the row nothing but CANCELLED is taken.
-- A run whose job was put on HOLD meanwhile may still end it: the job passes through RUNNING then.
-- An ending that finds no reservation to settle refuses the whole batch: require_settled is STABLE and names no column
-- of `settled`, so it is asked once, and before any row, also when nothing was settled.
-- Events up to the row's last_sequence are durable.
-- Locks, each in order: jobs, attempts, reservations, lanes, tenant limits, tenant funds. What a wait for a job's lock may
-- have changed is read from the locked row, never from other tables: the statement's snapshot is older than the lock.
WITH input AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset($1) AS r (
        ordinal integer, tenant_id text, id uuid, run_token uuid, by_run boolean, due text, was_sent boolean,
        first_event integer, state text, state_cause text, charge numeric, cancel_principal text, cancel_reason text,
        attempt jsonb, result jsonb, events jsonb
    )
), fenced AS MATERIALIZED (
    SELECT r.*, j.state AS prior_state, j.epoch AS prior_epoch, j.last_sequence, j.attempt_number, j.lane,
           j.spec_version, j.priority, j.ready_time, j.worker_id, j.claim_time, j.send_time, j.lease_until, j.hold_until,
           j.queue_deadline, j.counted_attempts, j.reservation_number,
           j.cancel_request_time, j.cancel_principal AS asked_by, j.cancel_reason AS asked_why
    FROM input r
    JOIN hourglass.jobs j ON j.tenant_id = r.tenant_id AND j.id = r.id
    WHERE j.run_token IS NOT DISTINCT FROM r.run_token
    ORDER BY j.tenant_id, j.id
    FOR NO KEY UPDATE OF j
), timed AS MATERIALIZED (
    SELECT f.*, clock_timestamp() AS now, f.prior_state = 'HELD' AND f.by_run AS came_late FROM fenced f
), judged AS MATERIALIZED (
    SELECT t.*,
           CASE WHEN CASE t.due WHEN 'LEASE' THEN t.lease_until IS NULL OR t.lease_until > t.now
                                                  OR (t.send_time IS NOT NULL) <> t.was_sent
                                WHEN 'QUEUE' THEN t.prior_state <> 'QUEUED' OR t.queue_deadline > t.now
                                WHEN 'HOLD' THEN t.hold_until IS NULL OR t.hold_until > t.now
                                ELSE false END THEN 'NOT_DUE'
                WHEN t.cancel_request_time IS NOT NULL AND t.state <> 'CANCELLED' THEN 'CANCEL_REQUESTED'
                ELSE 'OK' END AS verdict,
           t.prior_epoch + CASE WHEN t.by_run AND NOT t.came_late THEN 0 ELSE 1 END AS epoch,
           CASE WHEN t.came_late THEN 2 WHEN t.by_run THEN t.first_event ELSE 1 END AS base
    FROM timed t
), ending AS MATERIALIZED (
    SELECT j.*, (j.epoch << 32) + j.base + jsonb_array_length(j.events) - 1 AS end_sequence,
           a.outcome, a.cause, a.error_class, a.error_message, a.provider_request_id, a.counted, a.first_token_time,
           a.input_tokens, a.cached_input_tokens, a.output_tokens, a.cost, a.cost_basis, a.worst_case
    FROM judged j
    CROSS JOIN LATERAL jsonb_to_record(coalesce(j.attempt, '{}')) AS a (
        outcome text, cause text, error_class text, error_message text, provider_request_id text, counted boolean,
        first_token_time timestamptz, input_tokens bigint, cached_input_tokens bigint, output_tokens bigint, cost numeric,
        cost_basis text, worst_case numeric
    )
    WHERE j.verdict = 'OK'
), removed AS (
    DELETE FROM hourglass.jobs j USING ending e WHERE j.tenant_id = e.tenant_id AND j.id = e.id
), ended_attempt AS (
    -- A late outcome finds the row that was written when its job was held; the conflict shows it whatever the snapshot.
    INSERT INTO hourglass.attempts AS t
        (tenant_id, job_id, number, run_token, worker_id, claim_time, send_time, first_token_time, end_time, outcome,
         cause, error_class, error_message, provider_request_id, counted, input_tokens, cached_input_tokens,
         output_tokens, cost, cost_basis, worst_case)
    SELECT tenant_id, id, attempt_number, run_token, coalesce(worker_id, ''), coalesce(claim_time, now),
           CASE WHEN outcome <> 'NOT_SENT' THEN send_time END, first_token_time, now, outcome, cause, error_class,
           error_message, provider_request_id, counted, input_tokens, cached_input_tokens, output_tokens, cost,
           cost_basis, worst_case
    FROM ending WHERE attempt IS NOT NULL
    ON CONFLICT (tenant_id, job_id, number) DO UPDATE
        SET send_time = CASE WHEN excluded.outcome <> 'NOT_SENT' THEN t.send_time END,
            first_token_time = excluded.first_token_time, end_time = excluded.end_time, outcome = excluded.outcome,
            cause = excluded.cause, error_class = excluded.error_class, error_message = excluded.error_message,
            provider_request_id = excluded.provider_request_id, counted = excluded.counted,
            input_tokens = excluded.input_tokens, cached_input_tokens = excluded.cached_input_tokens,
            output_tokens = excluded.output_tokens, cost = excluded.cost, cost_basis = excluded.cost_basis,
            worst_case = excluded.worst_case
        WHERE t.run_token = excluded.run_token
), finished AS (
    INSERT INTO hourglass.finished_jobs
        (tenant_id, id, lane, spec_version, priority, state, state_cause, epoch, last_sequence, end_time, ready_time,
         attempt_number, counted_attempts, reservation_number, cancel_request_time, cancel_principal, cancel_reason)
    SELECT e.tenant_id, e.id, e.lane, e.spec_version, e.priority, e.state, e.state_cause, e.epoch, e.end_sequence, e.now,
           e.ready_time, e.attempt_number,
           e.counted_attempts + CASE WHEN e.prior_state = 'RUNNING' AND e.counted THEN 1
                                     WHEN e.came_late AND NOT e.counted THEN -1 ELSE 0 END,
           e.reservation_number,
           CASE WHEN e.state = 'CANCELLED' THEN coalesce(e.cancel_request_time, e.now) END,
           CASE WHEN e.state = 'CANCELLED' THEN coalesce(e.asked_by, e.cancel_principal) END,
           CASE WHEN e.state = 'CANCELLED' THEN coalesce(e.asked_why, e.cancel_reason) END
    FROM ending e
), accepted AS (
    INSERT INTO hourglass.job_results
        (tenant_id, id, attempt_number, accept_time, finish_reason, provider_model, input_tokens, cached_input_tokens,
         output_tokens, text)
    SELECT e.tenant_id, e.id, e.attempt_number, e.now, a.finish_reason, a.provider_model, e.input_tokens,
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
    RETURNING e.*, v.amount, v.captured, v.released
), overrun AS (
    INSERT INTO hourglass.overruns (tenant_id, subject_id, reservation_number, amount, create_time)
    SELECT tenant_id, id, reservation_number, charge - amount, now FROM settled WHERE charge > amount
), events AS (
    INSERT INTO hourglass.job_events (tenant_id, job_id, sequence, kind, event_time, attempt_number, text, attributes)
    SELECT e.tenant_id, e.id, (e.epoch << 32) + e.base + v.position - 1, v.event ->> 'kind',
           coalesce((v.event ->> 'time')::timestamptz, e.now),
           CASE WHEN v.event ->> 'kind' = 'STATE_CHANGED' THEN 0 ELSE e.attempt_number END, v.event ->> 'text',
           (v.event -> 'attributes')
               || CASE WHEN e.base + v.position = 2 THEN jsonb_build_object('last_durable_sequence', e.last_sequence)
                       ELSE '{}' END
               || CASE WHEN v.event ->> 'kind' = 'STATE_CHANGED' THEN jsonb_build_object('captured', e.captured::text)
                       ELSE '{}' END
    FROM settled e
    CROSS JOIN LATERAL jsonb_array_elements(e.events) WITH ORDINALITY AS v (event, position)
    WHERE (e.epoch << 32) + e.base + v.position - 1 > e.last_sequence
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
SELECT ordinal, verdict, captured, released, lane, end_sequence AS last_sequence, now AS end_time,
       counted_attempts - CASE WHEN came_late THEN 1 ELSE 0 END AS earlier_attempts
FROM settled
WHERE hourglass.require_settled((SELECT count(*) FROM ending), (SELECT count(*) FROM settled))
UNION ALL
SELECT ordinal, verdict, 0, 0, '', NULL, NULL, 0 FROM judged WHERE verdict <> 'OK'
UNION ALL
SELECT ordinal, 'LEASE_LOST', 0, 0, '', NULL, NULL, 0 FROM input WHERE ordinal NOT IN (SELECT ordinal FROM fenced)
ORDER BY ordinal
