-- Claims ready jobs for free slots, fairly across tenants: steps through the claim index, one probe a lane, tenant, priority
-- and spec version, from a rotating start ($7), deals the slots in rounds, and never exceeds a tenant's or a lane's limit.
-- Tenants at their limit and versions that are too new are stepped over, up to a bound, without using up a place; a tenant
-- that is looked at is looked at wholly. Jobs are read from where the probe found the first one, past what is claimed and
-- not vacuumed yet.
-- Interleaved weighted round robin (Katevenis et al., 1991): a cycle has as many rounds as the heaviest tenant that waits
-- has weight, and round n (from 0) gives a turn to each tenant whose weight is above n. Within a tenant the order is
-- ready_time - priority minutes. Rows come in the order of the turns: the last one says where the next claim goes on.
-- Locks: lanes, then tenant limits (both waited for, in order, and read anew once locked, which is what makes the limits
-- exact), then jobs with SKIP LOCKED, so that nobody waits for a job row here. Nothing is locked when nothing can start.
-- $1 lanes, $2 newest spec version, $3 free slots, $4 worker, $5 its address, $6 lease in seconds, $7 start after this
-- tenant, $8 places: tenants that are looked at in a lane, $9 round that the start is in, $10 rounds of its
-- cycle as far as they are known, more than $9.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), probe AS (
    SELECT l.lane, b.upper_bound, b.round, first.tenant_id, first.priority, first.spec_version, first.ready_time,
           first.weight, coalesce(first.weight > b.round, false) AS counts, 0 AS passed, 1 AS looked
    FROM hourglass.lanes l
    CROSS JOIN clock
    CROSS JOIN (VALUES ($7::text, (SELECT max(tenant_id) FROM hourglass.tenant_limits), $9::integer),
                       ('', $7::text, ($9::integer + 1) % $10::integer)) AS b (lower_bound, upper_bound, round)
    CROSS JOIN LATERAL (
        SELECT j.tenant_id, j.priority, j.spec_version, j.ready_time,
               CASE WHEN j.ready_time <= clock.now AND j.spec_version <= $2
                    THEN (SELECT t.weight FROM hourglass.tenant_limits t
                          WHERE t.tenant_id = j.tenant_id AND t.running < t.max_running) END AS weight
        FROM hourglass.jobs j
        WHERE j.state = 'QUEUED' AND j.lane = l.lane AND j.tenant_id > b.lower_bound AND j.tenant_id <= b.upper_bound
        ORDER BY j.lane, j.tenant_id, j.priority, j.spec_version, j.ready_time LIMIT 1
    ) first
    WHERE l.lane = ANY ($1::text[]) AND l.paused_time IS NULL AND coalesce(l.park_until <= clock.now, true)
      AND coalesce(l.running < l.max_running, true)
    UNION ALL
    SELECT p.lane, p.upper_bound, p.round, next.tenant_id, next.priority, next.spec_version, next.ready_time,
           next.weight, coalesce(next.weight > p.round, false) OR (p.counts AND next.tenant_id = p.tenant_id),
           p.passed + CASE WHEN p.counts AND next.tenant_id > p.tenant_id THEN 1 ELSE 0 END, p.looked + 1
    FROM probe p
    CROSS JOIN clock
    CROSS JOIN LATERAL (
        SELECT j.tenant_id, j.priority, j.spec_version, j.ready_time,
               CASE WHEN j.ready_time <= clock.now AND j.spec_version <= $2
                    THEN (SELECT t.weight FROM hourglass.tenant_limits t
                          WHERE t.tenant_id = j.tenant_id AND t.running < t.max_running) END AS weight
        FROM hourglass.jobs j
        WHERE j.state = 'QUEUED' AND j.lane = p.lane AND j.tenant_id <= p.upper_bound
          AND (j.tenant_id, j.priority, j.spec_version) > (p.tenant_id, p.priority, p.spec_version)
        ORDER BY j.lane, j.tenant_id, j.priority, j.spec_version, j.ready_time LIMIT 1
    ) next
    WHERE next.tenant_id = p.tenant_id OR (p.passed + p.counts::integer < $8 AND p.looked < 20 * $8)
), can_start AS (
    SELECT lane, tenant_id, priority, spec_version, ready_time, weight, greatest(max(weight) OVER (), $10) AS rounds
    FROM probe WHERE weight IS NOT NULL
), turns_had AS (
    SELECT *, least(weight, $9 + CASE WHEN tenant_id <= $7 THEN 1 ELSE 0 END) AS had FROM can_start
), seated AS (
    SELECT *, row_number() OVER (PARTITION BY lane, tenant_id ORDER BY ready_time - make_interval(mins => priority), priority,
                                 spec_version) AS nth_place,
           dense_rank() OVER (ORDER BY had / weight * rounds + had % weight, tenant_id) AS seat
    FROM turns_had
), waiting AS MATERIALIZED (
    SELECT lane, tenant_id, priority, spec_version, ready_time, weight, rounds, had, nth_place
    FROM seated WHERE seat <= 2 * $8 * cardinality($1)
), open_lanes AS MATERIALIZED (
    SELECT l.lane, coalesce(l.max_running - l.running, $3) AS room
    FROM hourglass.lanes l
    WHERE l.lane IN (SELECT lane FROM waiting) AND l.paused_time IS NULL
      AND coalesce(l.park_until <= clock_timestamp(), true) AND coalesce(l.running < l.max_running, true)
    ORDER BY l.lane
    FOR NO KEY UPDATE OF l
), open_places AS MATERIALIZED (
    SELECT w.lane, w.tenant_id, w.priority, w.spec_version, w.ready_time, w.weight, w.rounds, w.had, w.nth_place,
           t.max_running - t.running AS tenant_room, l.room AS lane_room
    FROM waiting w
    JOIN open_lanes l ON l.lane = w.lane
    JOIN hourglass.tenant_limits t ON t.tenant_id = w.tenant_id
    WHERE t.running < t.max_running
    ORDER BY t.tenant_id
    FOR NO KEY UPDATE OF t
), ranked AS (
    SELECT *, dense_rank() OVER (ORDER BY weight DESC, tenant_id) AS nth_tenant,
           row_number() OVER (PARTITION BY tenant_id) = 1 AS is_first
    FROM open_places
), weighed AS (
    SELECT *, max(nth_tenant) OVER (PARTITION BY weight) AS as_heavy, sum(weight) FILTER (WHERE is_first) OVER () AS total
    FROM ranked
), shared AS MATERIALIZED (
    SELECT *, $3 / total * weight + least(weight, ($3 % total + as_heavy - 1) / as_heavy) AS share FROM weighed
), candidates AS MATERIALIZED (
    SELECT s.lane, s.tenant_id, s.weight, s.rounds, s.had, s.tenant_room, s.lane_room, c.id, c.claim_order, c.last_sequence
    FROM shared s
    CROSS JOIN clock
    CROSS JOIN LATERAL (
        SELECT j.id, j.last_sequence, j.ready_time - make_interval(mins => j.priority) AS claim_order
        FROM hourglass.jobs j
        WHERE j.state = 'QUEUED' AND j.lane = s.lane AND j.tenant_id = s.tenant_id AND j.priority = s.priority
          AND j.spec_version = s.spec_version AND j.ready_time >= s.ready_time AND j.ready_time <= clock.now
        ORDER BY j.ready_time, j.id
        LIMIT least(s.share, s.tenant_room, s.lane_room)
        FOR NO KEY UPDATE SKIP LOCKED
    ) c
    WHERE s.nth_place <= s.share
), within_tenant AS (
    SELECT *, had + row_number() OVER (PARTITION BY tenant_id ORDER BY claim_order, id) - 1 AS turn FROM candidates
), dealt AS (
    SELECT *, turn / weight * rounds + turn % weight AS round FROM within_tenant WHERE turn - had < tenant_room
), within_lane AS (
    SELECT *, row_number() OVER (PARTITION BY lane ORDER BY round, tenant_id) AS lane_turn FROM dealt
), chosen AS MATERIALIZED (
    SELECT tenant_id, id, last_sequence, round, rounds, row_number() OVER (ORDER BY round, tenant_id) AS place
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
              j.known_cost, j.unknown_cost, j.claim_time, j.ready_time, c.last_sequence, c.place, c.round, c.rounds
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
       c.known_cost, c.unknown_cost, c.claim_time, c.ready_time, c.last_sequence, c.round, c.rounds,
       f.principal, f.model, f.provider, f.traceparent, f.tracestate, f.create_time, f.max_output_tokens,
       f.attempt_timeout, f.max_attempts, f.unknown_outcome_policy, f.rate_card, f.provider_rate_card,
       f.input_token_bound, f.input_token_estimate, f.attempt_worst_case, f.provider_cost_limit, p.messages, p.sampling
FROM claimed c
JOIN hourglass.job_facts f ON f.tenant_id = c.tenant_id AND f.id = c.id
JOIN hourglass.job_payloads p ON p.tenant_id = c.tenant_id AND p.id = c.id
ORDER BY c.place
