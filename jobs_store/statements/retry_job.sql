-- Sends a FAILED job to the queue again under a new reservation, or does nothing: the caller, who has locked its finished
-- row, rolls back unless the answer says that the funds moved. Attempts and queue time start afresh; numbers of attempts,
-- epochs and reservations go on, and so does what all attempts have cost, which provider_cost_limit bounds.
-- Each step reads from the one before, so that locks are taken in the one order: job, reservation, tenant's limits, funds.
-- $1 tenant, $2 job, $3 who decided it, $4 the reason that was given.
WITH terms AS MATERIALIZED (
    SELECT f.queue_timeout, f.quoted_amount, f.attempt_worst_case, f.provider_cost_limit, c.known_cost, c.unknown_cost,
           clock_timestamp() AS now,
           EXISTS (SELECT FROM hourglass.job_payloads p WHERE p.tenant_id = f.tenant_id AND p.id = f.id) AS has_payload
    FROM hourglass.job_facts f
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(a.cost), 0) AS known_cost, coalesce(sum(a.worst_case), 0) AS unknown_cost
        FROM hourglass.attempts a WHERE a.tenant_id = f.tenant_id AND a.job_id = f.id
    ) c
    WHERE f.tenant_id = $1 AND f.id = $2
), taken_back AS (
    DELETE FROM hourglass.finished_jobs d
    USING terms t
    WHERE d.tenant_id = $1 AND d.id = $2 AND d.state = 'FAILED' AND t.has_payload
      AND t.known_cost + t.unknown_cost + t.attempt_worst_case <= t.provider_cost_limit
    RETURNING d.tenant_id, d.id, d.lane, d.spec_version, d.priority, d.epoch, d.last_sequence, d.attempt_number,
              d.reservation_number, t.now, t.queue_timeout, t.known_cost, t.unknown_cost
), job AS (
    INSERT INTO hourglass.jobs
        (tenant_id, id, lane, spec_version, priority, state, state_cause, epoch, last_sequence, update_time, ready_time,
         queue_start_time, queue_deadline, attempt_number, known_cost, unknown_cost, reservation_number)
    SELECT tenant_id, id, lane, spec_version, priority, 'QUEUED', 'RETRIED', epoch + 1, ((epoch + 1) << 32) + 1, now, now,
           now, now + make_interval(secs => queue_timeout), attempt_number, known_cost, unknown_cost, reservation_number + 1
    FROM taken_back
    RETURNING tenant_id, id, reservation_number
), reservation AS (
    INSERT INTO hourglass.reservations (tenant_id, job_id, number, amount, create_time)
    SELECT j.tenant_id, j.id, j.reservation_number, t.quoted_amount, t.now
    FROM job j CROSS JOIN terms t
    RETURNING tenant_id, amount
), queued AS (
    UPDATE hourglass.tenant_limits l
    SET queued = l.queued + 1
    FROM reservation v
    WHERE l.tenant_id = v.tenant_id AND l.queued < l.max_queued
    RETURNING l.tenant_id, v.amount
), funds AS (
    UPDATE hourglass.tenant_funds f
    SET available = f.available - q.amount, reserved = f.reserved + q.amount
    FROM queued q
    WHERE f.tenant_id = q.tenant_id AND f.available >= q.amount
    RETURNING f.tenant_id
), event AS (
    INSERT INTO hourglass.job_events (tenant_id, job_id, sequence, kind, event_time, attempt_number, attributes)
    SELECT tenant_id, id, ((epoch + 1) << 32) + 1, 'STATE_CHANGED', now, 0,
           jsonb_build_object('state', 'QUEUED', 'cause', 'RETRIED', 'last_durable_sequence', last_sequence,
                              'ready_time', now, 'principal', $3::text, 'reason', $4::text)
    FROM taken_back
)
SELECT t.has_payload, EXISTS (SELECT FROM job) AS cost_limit_left, EXISTS (SELECT FROM queued) AS queue_had_room,
       EXISTS (SELECT FROM funds) AS funds_sufficed, t.quoted_amount,
       (SELECT b.lane FROM taken_back b) AS lane
FROM terms t
