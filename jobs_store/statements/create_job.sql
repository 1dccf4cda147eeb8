-- Makes a job, or nothing: key, quote, job, reservation, queue limit and funds, in the order in which locks are taken
-- everywhere. Each step reads from the one before, which is what keeps that order inside one statement. The caller rolls
-- back unless the answer says that the funds moved. Two creates with one key: the second waits on the unique key, and
-- finds it taken after the first one's commit or free after its rollback. A key whose lifetime is over is taken again, but
-- not before the payload of the job that it made has gone.
WITH request AS MATERIALIZED (
    SELECT r.*, clock_timestamp() AS now
    FROM jsonb_to_record($1) AS r (
        tenant_id text, id uuid, key_digest text, hash_version smallint, request_digest text, key_lifetime double precision,
        principal text, model text, provider text, lane text, spec_version smallint, priority smallint,
        schedule_time timestamptz, queue_timeout double precision, labels jsonb, traceparent text, tracestate text,
        create_ledger text, max_output_tokens bigint, attempt_timeout double precision, max_attempts integer,
        unknown_outcome_policy text, price_basis text, price_version text, quote_id uuid, rate_card jsonb,
        provider_rate_card jsonb, input_token_bound bigint, input_token_estimate bigint, quoted_amount numeric,
        attempt_worst_case numeric, max_charge numeric, provider_cost_limit numeric, messages jsonb, sampling jsonb
    )
), taken_key AS (
    INSERT INTO hourglass.idempotency_keys AS k
        (tenant_id, key_digest, hash_version, request_digest, job_id, create_time, expire_time)
    SELECT tenant_id, decode(key_digest, 'hex'), hash_version, decode(request_digest, 'hex'), id, now,
           now + make_interval(secs => key_lifetime)
    FROM request
    ON CONFLICT (tenant_id, key_digest) DO UPDATE
        SET hash_version = excluded.hash_version, request_digest = excluded.request_digest, job_id = excluded.job_id,
            create_time = excluded.create_time, expire_time = excluded.expire_time
        WHERE k.expire_time <= clock_timestamp()
          AND NOT EXISTS (SELECT FROM hourglass.job_payloads p WHERE p.tenant_id = k.tenant_id AND p.id = k.job_id)
    RETURNING k.job_id, k.expire_time
), used_quote AS (
    UPDATE hourglass.quotes q
    SET used_time = r.now, used_job_id = r.id
    FROM request r JOIN taken_key k ON k.job_id = r.id
    WHERE q.tenant_id = r.tenant_id AND q.id = r.quote_id AND q.used_time IS NULL AND q.expire_time > r.now
    RETURNING q.id
), timed AS MATERIALIZED (
    SELECT r.*, greatest(r.now, coalesce(r.schedule_time, r.now)) AS ready_time
    FROM request r JOIN taken_key k ON k.job_id = r.id
    WHERE r.quote_id IS NULL OR EXISTS (SELECT FROM used_quote)
), job AS (
    INSERT INTO hourglass.jobs
        (tenant_id, id, lane, spec_version, priority, state, state_cause, epoch, last_sequence, update_time, ready_time,
         queue_start_time, queue_deadline)
    SELECT tenant_id, id, lane, spec_version, priority, 'QUEUED', 'CREATED', 1, (1::bigint << 32) + 1, now, ready_time,
           ready_time, ready_time + make_interval(secs => queue_timeout)
    FROM timed
    RETURNING tenant_id, id
), reservation AS (
    INSERT INTO hourglass.reservations (tenant_id, job_id, number, amount, create_time)
    SELECT t.tenant_id, t.id, 1, t.quoted_amount, t.now
    FROM timed t JOIN job j ON j.id = t.id
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
), facts AS (
    INSERT INTO hourglass.job_facts
        (tenant_id, id, principal, model, provider, lane, spec_version, create_time, labels, traceparent, tracestate,
         create_ledger, max_output_tokens, attempt_timeout, queue_timeout, schedule_time, max_attempts, unknown_outcome_policy,
         price_basis, price_version, quote_id, rate_card, provider_rate_card, input_token_bound, input_token_estimate,
         quoted_amount, attempt_worst_case, max_charge, provider_cost_limit)
    SELECT tenant_id, id, principal, model, provider, lane, spec_version, now, labels, traceparent, tracestate,
           create_ledger, max_output_tokens, attempt_timeout, queue_timeout, schedule_time, max_attempts, unknown_outcome_policy,
           price_basis, price_version, quote_id, rate_card, provider_rate_card, input_token_bound, input_token_estimate,
           quoted_amount, attempt_worst_case, max_charge, provider_cost_limit
    FROM timed
), payload AS (
    INSERT INTO hourglass.job_payloads (tenant_id, id, messages, sampling)
    SELECT tenant_id, id, messages, sampling FROM timed
), event AS (
    INSERT INTO hourglass.job_events (tenant_id, job_id, sequence, kind, event_time, attempt_number, attributes)
    SELECT tenant_id, id, (1::bigint << 32) + 1, 'STATE_CHANGED', now, 0,
           jsonb_build_object('state', 'QUEUED', 'cause', 'CREATED', 'last_durable_sequence', 0, 'ready_time', ready_time)
    FROM timed
)
SELECT
    EXISTS (SELECT FROM taken_key) AS key_was_free,
    EXISTS (SELECT FROM job) AS quote_was_free,
    EXISTS (SELECT FROM hourglass.tenants t WHERE t.tenant_id = r.tenant_id) AS tenant_exists,
    EXISTS (SELECT FROM queued) AS queue_had_room,
    EXISTS (SELECT FROM funds) AS funds_sufficed,
    r.now AS create_time,
    (SELECT ready_time FROM timed) AS ready_time,
    (SELECT expire_time FROM taken_key) AS key_expire_time
FROM request r
