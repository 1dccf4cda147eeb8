-- Ends attempts whose job goes on: back to the queue, or HELD until somebody decides. Fenced by the token; a HELD row
-- keeps it. Refused once a cancel is in the row. What an ender without a token of its own decided on old facts is checked
-- again under the lock (due). A run whose job was put on HOLD meanwhile may still say what came of its attempt: the job
-- passes through RUNNING then, and an outcome that is still unknown changes nothing. Money stays reserved. The queue time
-- goes on, unless an operator has decided: what a job waited for that is not what its queue timeout is about.
-- Locks, each in order: jobs, attempts, lanes, tenant limits. What a wait for a job's lock may have changed is read from
-- the locked row, never from other tables: the statement's snapshot is older than the lock.
WITH input AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset($1) AS r (
        ordinal integer, tenant_id text, id uuid, run_token uuid, by_run boolean, due text, was_sent boolean,
        first_event integer, state text, state_cause text, delay double precision, crashed boolean, attempt jsonb,
        events jsonb
    )
), fenced AS MATERIALIZED (
    SELECT r.*, j.state AS prior_state, j.epoch AS prior_epoch, j.last_sequence, j.attempt_number, j.lane, j.worker_id,
           j.claim_time, j.send_time, j.lease_until, j.cancel_request_time, j.counted_attempts
    FROM input r
    JOIN hourglass.jobs j ON j.tenant_id = r.tenant_id AND j.id = r.id
    WHERE j.run_token = r.run_token
    ORDER BY j.tenant_id, j.id
    FOR NO KEY UPDATE OF j
), timed AS MATERIALIZED (
    SELECT f.*, clock_timestamp() AS now, f.prior_state = 'HELD' AND f.by_run AS came_late FROM fenced f
), judged AS MATERIALIZED (
    SELECT t.*,
           CASE WHEN t.due = 'LEASE' AND (t.lease_until IS NULL OR t.lease_until > t.now
                                          OR (t.send_time IS NOT NULL) <> t.was_sent) THEN 'NOT_DUE'
                WHEN t.cancel_request_time IS NOT NULL THEN 'CANCEL_REQUESTED'
                WHEN t.came_late AND t.state = 'HELD' THEN 'HELD'
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
), guessed AS MATERIALIZED (
    -- A late outcome replaces what was counted when nobody knew. Where the hold is newer than the snapshot that was the
    -- worst case.
    SELECT e.ordinal, coalesce(t.cost, 0) AS cost, coalesce(t.worst_case, f.attempt_worst_case) AS worst_case
    FROM ending e
    JOIN hourglass.job_facts f ON f.tenant_id = e.tenant_id AND f.id = e.id
    LEFT JOIN hourglass.attempts t ON t.tenant_id = e.tenant_id AND t.job_id = e.id AND t.number = e.attempt_number
    WHERE e.came_late
), requeued AS (
    UPDATE hourglass.jobs j
    SET state = e.state, state_cause = e.state_cause, epoch = e.epoch, last_sequence = e.end_sequence, update_time = e.now,
        ready_time = CASE WHEN e.state = 'QUEUED' THEN e.now + make_interval(secs => e.delay) ELSE j.ready_time END,
        queue_start_time = CASE WHEN e.state_cause = 'RESOLVED_RETRY' THEN e.now ELSE j.queue_start_time END,
        queue_deadline = CASE WHEN e.state_cause = 'RESOLVED_RETRY' THEN e.now + (j.queue_deadline - j.queue_start_time)
                              ELSE j.queue_deadline END,
        hold_until = CASE WHEN e.state = 'HELD' THEN e.now + make_interval(secs => e.delay) END,
        run_token = CASE WHEN e.state = 'HELD' THEN j.run_token END,
        worker_id = NULL, worker_address = NULL, claim_time = NULL, send_time = NULL, lease_until = NULL,
        counted_attempts = j.counted_attempts + CASE WHEN NOT e.came_late AND e.counted THEN 1
                                                     WHEN e.came_late AND NOT e.counted THEN -1 ELSE 0 END,
        crash_count = CASE WHEN e.crashed THEN j.crash_count + 1 WHEN e.outcome = 'NOT_SENT' THEN j.crash_count ELSE 0 END,
        known_cost = greatest(j.known_cost - coalesce(g.cost, 0), 0) + coalesce(e.cost, 0),
        unknown_cost = greatest(j.unknown_cost - coalesce(g.worst_case, 0), 0) + coalesce(e.worst_case, 0)
    FROM ending e LEFT JOIN guessed g ON g.ordinal = e.ordinal
    WHERE j.tenant_id = e.tenant_id AND j.id = e.id
    RETURNING e.*, j.ready_time
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
), late_event AS (
    INSERT INTO hourglass.job_events (tenant_id, job_id, sequence, kind, event_time, attempt_number, attributes)
    SELECT tenant_id, id, (epoch << 32) + 1, 'STATE_CHANGED', now, 0,
           jsonb_build_object('state', 'RUNNING', 'cause', 'LATE_RESULT', 'last_durable_sequence', last_sequence)
    FROM ending WHERE came_late
), events AS (
    INSERT INTO hourglass.job_events (tenant_id, job_id, sequence, kind, event_time, attempt_number, text, attributes)
    SELECT e.tenant_id, e.id, (e.epoch << 32) + e.base + v.position - 1, v.event ->> 'kind',
           coalesce((v.event ->> 'time')::timestamptz, e.now),
           CASE WHEN v.event ->> 'kind' = 'STATE_CHANGED' THEN 0 ELSE e.attempt_number END, v.event ->> 'text',
           (v.event -> 'attributes')
               || CASE WHEN e.base + v.position = 2 THEN jsonb_build_object('last_durable_sequence', e.last_sequence)
                       ELSE '{}' END
               || CASE WHEN v.event ->> 'kind' = 'STATE_CHANGED' AND e.state = 'QUEUED'
                       THEN jsonb_build_object('ready_time', e.ready_time) ELSE '{}' END
    FROM requeued e
    CROSS JOIN LATERAL jsonb_array_elements(e.events) WITH ORDINALITY AS v (event, position)
    WHERE (e.epoch << 32) + e.base + v.position - 1 > e.last_sequence
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
SELECT ordinal, verdict, lane, end_sequence AS last_sequence, now AS end_time, ready_time,
       counted_attempts - CASE WHEN came_late THEN 1 ELSE 0 END AS earlier_attempts
FROM requeued
UNION ALL
SELECT ordinal, verdict, '', NULL, NULL, NULL, 0 FROM judged WHERE verdict <> 'OK'
UNION ALL
SELECT ordinal, 'LEASE_LOST', '', NULL, NULL, NULL, 0 FROM input WHERE ordinal NOT IN (SELECT ordinal FROM fenced)
ORDER BY ordinal
