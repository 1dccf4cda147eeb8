-- Claims ready jobs for free slots, fairly across tenants: steps through the ready index, one probe a lane, tenant and
-- priority, from a rotating start ($7), deals every tenant its share in turns, and never exceeds a tenant's or a lane's
-- limit. Tenants at their limit are stepped over, up to a bound, without using up a place. Within a tenant the order is
-- ready_time - priority minutes. Rows come in the order of the turns: the tenant of the last one is the next start.
-- Locks: lanes, then tenant limits (both waited for, in order, and read anew once locked, which is what makes the limits
-- exact), then jobs with SKIP LOCKED, so that nobody waits for a job row here. Nothing is locked when nothing can start.
-- $1 lanes, $2 newest spec version, $3 free slots, $4 worker, $5 its address, $6 lease in seconds, $7 start after this
-- tenant, $8 places: tenants and priorities that are looked at in a lane.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), probe AS (
    SELECT l.lane, b.upper_bound, first.tenant_id, first.priority, first.can_start, 1 AS looked, 0 AS places
    FROM hourglass.lanes l
    CROSS JOIN clock
    CROSS JOIN (VALUES ($7::text, (SELECT max(tenant_id) FROM hourglass.tenant_limits)), ('', $7::text))
        AS b (lower_bound, upper_bound)
    CROSS JOIN LATERAL (
        SELECT j.tenant_id, j.priority,
               j.ready_time <= clock.now AND (SELECT t.running < t.max_running FROM hourglass.tenant_limits t
                                              WHERE t.tenant_id = j.tenant_id) AS can_start
        FROM hourglass.jobs j
        WHERE j.state = 'QUEUED' AND j.lane = l.lane AND j.tenant_id > b.lower_bound AND j.tenant_id <= b.upper_bound
          AND j.spec_version <= $2
        ORDER BY j.lane, j.tenant_id, j.priority, j.ready_time LIMIT 1
    ) first
    WHERE l.lane = ANY ($1::text[]) AND l.paused_time IS NULL AND coalesce(l.park_until <= clock.now, true)
      AND coalesce(l.running < l.max_running, true)
    UNION ALL
    SELECT p.lane, p.upper_bound, next.tenant_id, next.priority, next.can_start, p.looked + 1,
           p.places + CASE WHEN p.can_start THEN 1 ELSE 0 END
    FROM probe p
    CROSS JOIN clock
    CROSS JOIN LATERAL (
        SELECT j.tenant_id, j.priority,
               j.ready_time <= clock.now AND (SELECT t.running < t.max_running FROM hourglass.tenant_limits t
                                              WHERE t.tenant_id = j.tenant_id) AS can_start
        FROM hourglass.jobs j
        WHERE j.state = 'QUEUED' AND j.lane = p.lane AND (j.tenant_id, j.priority) > (p.tenant_id, p.priority)
          AND j.tenant_id <= p.upper_bound AND j.spec_version <= $2
        ORDER BY j.lane, j.tenant_id, j.priority, j.ready_time LIMIT 1
    ) next
    WHERE p.places < $8 AND p.looked < 20 * $8
), waiting AS MATERIALIZED (
    SELECT DISTINCT lane, tenant_id, priority FROM probe WHERE can_start
), open_lanes AS MATERIALIZED (
    SELECT l.lane, coalesce(l.max_running - l.running, $3) AS room
    FROM hourglass.lanes l
    WHERE l.lane IN (SELECT lane FROM waiting) AND l.paused_time IS NULL
      AND coalesce(l.park_until <= clock_timestamp(), true) AND coalesce(l.running < l.max_running, true)
    ORDER BY l.lane
    FOR NO KEY UPDATE OF l
), open_places AS MATERIALIZED (
    SELECT w.lane, w.tenant_id, w.priority, t.max_running - t.running AS tenant_room, l.room AS lane_room
    FROM waiting w
    JOIN open_lanes l ON l.lane = w.lane
    JOIN hourglass.tenant_limits t ON t.tenant_id = w.tenant_id
    WHERE t.running < t.max_running
    ORDER BY t.tenant_id
    FOR NO KEY UPDATE OF t
), share AS MATERIALIZED (
    SELECT ceil($3::numeric / greatest(1, count(DISTINCT (lane, tenant_id))))::bigint AS jobs FROM open_places
), candidates AS MATERIALIZED (
    SELECT o.lane, o.tenant_id, o.tenant_room, o.lane_room, c.id, c.claim_order, c.last_sequence
    FROM open_places o
    CROSS JOIN share
    CROSS JOIN clock
    CROSS JOIN LATERAL (
        SELECT j.id, j.last_sequence, j.ready_time - make_interval(mins => j.priority) AS claim_order
        FROM hourglass.jobs j
        WHERE j.state = 'QUEUED' AND j.lane = o.lane AND j.tenant_id = o.tenant_id AND j.priority = o.priority
          AND j.ready_time <= clock.now AND j.spec_version <= $2
        ORDER BY j.ready_time, j.id
        LIMIT least(share.jobs, o.tenant_room, o.lane_room)
        FOR NO KEY UPDATE SKIP LOCKED
    ) c
), within_tenant AS (
    SELECT *, row_number() OVER (PARTITION BY tenant_id ORDER BY claim_order, id) AS turn FROM candidates
), within_lane AS (
    SELECT *, row_number() OVER (PARTITION BY lane ORDER BY turn, tenant_id <= $7, tenant_id) AS lane_turn
    FROM within_tenant WHERE turn <= tenant_room
), chosen AS MATERIALIZED (
    SELECT tenant_id, id, last_sequence, row_number() OVER (ORDER BY turn, tenant_id <= $7, tenant_id) AS place
    FROM within_lane WHERE lane_turn <= lane_room
    ORDER BY place LIMIT $3
), moment AS MATERIALIZED (
    SELECT clock_timestamp() AS now FROM (SELECT count(*) AS chosen FROM chosen) AS after_the_locks
), claimed AS (
    UPDATE hourglass.jobs j
    SET state = 'RUNNING', state_cause = 'CLAIMED', epoch = j.epoch + 1,
        last_sequence = ((j.epoch + 1) << 32) + 2, update_time = moment.now, run_token = gen_random_uuid(),
        worker_id = $4, worker_address = $5, claim_time = moment.now, lease_until = moment.now + make_interval(secs => $6), attempt_number = j.attempt_number + 1
    FROM chosen c CROSS JOIN moment
    WHERE j.tenant_id = c.tenant_id AND j.id = c.id
    RETURNING j.tenant_id, j.id, j.lane, j.epoch, j.run_token, j.attempt_number, j.counted_attempts, j.crash_count,
              j.known_cost, j.unknown_cost, j.claim_time, c.last_sequence, c.place
), lane_count AS (
    UPDATE hourglass.lanes l SET running = l.running + n.claimed
    FROM (SELECT lane, count(*) AS claimed FROM claimed GROUP BY lane) n
    WHERE l.lane = n.lane
), tenant_count AS (
    UPDATE hourglass.tenant_limits t SET running = t.running + n.claimed, queued = t.queued - n.claimed
    FROM (SELECT tenant_id, count(*) AS claimed FROM claimed GROUP BY tenant_id) n
    WHERE t.tenant_id = n.tenant_id
), events AS (
    INSERT INTO hourglass.job_events (tenant_id, job_id, sequence, kind, event_time, attempt_number, attributes)
    SELECT c.tenant_id, c.id, (c.epoch << 32) + e.n, e.kind, c.claim_time, e.attempt_number, e.attributes
    FROM claimed c
    CROSS JOIN LATERAL (VALUES
        (1, 'STATE_CHANGED', 0, jsonb_build_object('state', 'RUNNING', 'cause', 'CLAIMED',
                                                   'last_durable_sequence', c.last_sequence)),
        (2, 'ATTEMPT_STARTED', c.attempt_number, jsonb_build_object('worker_id', $4::text))
    ) AS e (n, kind, attempt_number, attributes)
)
SELECT c.tenant_id, c.id, c.lane, c.epoch, c.run_token, c.attempt_number, c.counted_attempts, c.crash_count,
       c.known_cost, c.unknown_cost, c.claim_time, c.last_sequence,
       f.principal, f.model, f.provider, f.traceparent, f.tracestate, f.create_time, f.max_output_tokens,
       f.attempt_timeout, f.max_attempts, f.unknown_outcome_policy, f.rate_card, f.provider_rate_card,
       f.input_token_bound, f.input_token_estimate, f.attempt_worst_case, f.provider_cost_limit, p.messages, p.sampling
FROM claimed c
JOIN hourglass.job_facts f ON f.tenant_id = c.tenant_id AND f.id = c.id
JOIN hourglass.job_payloads p ON p.tenant_id = c.tenant_id AND p.id = c.id
ORDER BY c.place
