-- An unfinished job, and nothing but what claim, renewal and finish touch: narrow, and deleted at the end.
-- What never changes stands in job_facts, what is large in job_payloads, what is over in finished_jobs.
CREATE TABLE hourglass.jobs (
    tenant_id           text           NOT NULL,
    id                  uuid           NOT NULL,
    lane                text           NOT NULL,
    spec_version        smallint       NOT NULL,
    priority            smallint       NOT NULL CHECK (priority BETWEEN -100 AND 100),
    state               text           NOT NULL,
    state_cause         text           NOT NULL,
    epoch               bigint         NOT NULL CHECK (epoch BETWEEN 1 AND 2147483647),
    -- The last durable event: whoever holds the row's lock knows it, whatever its snapshot shows of the log.
    last_sequence       bigint         NOT NULL CHECK (last_sequence > 0),
    update_time         timestamptz    NOT NULL,
    -- Not claimed before. Within a tenant claims go by ready_time - priority minutes, so that waiting outweighs priority.
    ready_time          timestamptz    NOT NULL,
    -- The queue timeout runs between these two.
    queue_start_time    timestamptz    NOT NULL,
    queue_deadline      timestamptz    NOT NULL,
    -- The token stands on the row exactly while it is RUNNING or HELD.
    run_token           uuid,
    worker_id           text,
    worker_address      text,
    claim_time          timestamptz,
    send_time           timestamptz,
    lease_until         timestamptz,
    hold_until          timestamptz,
    attempt_number      integer        NOT NULL DEFAULT 0 CHECK (attempt_number >= 0),
    counted_attempts    integer        NOT NULL DEFAULT 0 CHECK (counted_attempts >= 0),
    -- Claims in a row that ended before the send by a crash or a lost lease.
    crash_count         integer        NOT NULL DEFAULT 0 CHECK (crash_count >= 0),
    -- What ended attempts cost the operator, and what those with an unknown outcome cost at worst.
    known_cost          numeric(24, 9) NOT NULL DEFAULT 0 CHECK (known_cost >= 0),
    unknown_cost        numeric(24, 9) NOT NULL DEFAULT 0 CHECK (unknown_cost >= 0),
    reservation_number  smallint       NOT NULL DEFAULT 1 CHECK (reservation_number >= 1),
    cancel_request_time timestamptz,
    cancel_principal    text,
    cancel_reason       text,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT jobs_state_check CHECK (state IN ('QUEUED', 'RUNNING', 'HELD')),
    CONSTRAINT jobs_run_token_check CHECK ((run_token IS NOT NULL) = (state IN ('RUNNING', 'HELD'))),
    CONSTRAINT jobs_lease_check CHECK ((lease_until IS NOT NULL) = (state = 'RUNNING')),
    CONSTRAINT jobs_worker_check CHECK (
        (worker_id IS NOT NULL) = (state = 'RUNNING')
        AND (worker_address IS NOT NULL) = (state = 'RUNNING')
        AND (claim_time IS NOT NULL) = (state = 'RUNNING')
    ),
    CONSTRAINT jobs_send_check CHECK (send_time IS NULL OR state = 'RUNNING'),
    CONSTRAINT jobs_hold_check CHECK ((hold_until IS NOT NULL) = (state = 'HELD')),
    -- Cancelling a job that nobody runs ends it at once, so intent can only stand on a running one.
    CONSTRAINT jobs_cancel_check CHECK (cancel_request_time IS NULL OR state = 'RUNNING'),
    CONSTRAINT jobs_queue_check CHECK (queue_deadline >= queue_start_time)
);

-- Unvacuumed dead entries at the head of the ready index cost every claim: vacuum this table early and often.
ALTER TABLE hourglass.jobs SET (
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 20000
);

-- The first row of a lane, tenant and priority tells whether anything is ready there: a claim reads none that is not.
CREATE INDEX jobs_ready_index ON hourglass.jobs (lane, tenant_id, priority, ready_time, id)
    INCLUDE (spec_version) WHERE state = 'QUEUED';
CREATE INDEX jobs_queue_deadline_index ON hourglass.jobs (queue_deadline) WHERE state = 'QUEUED';
CREATE INDEX jobs_running_index ON hourglass.jobs (tenant_id, id) WHERE state = 'RUNNING';
CREATE INDEX jobs_hold_index ON hourglass.jobs (hold_until) WHERE state = 'HELD';

-- What a job is, from its create to its retention. Insert-only.
CREATE TABLE hourglass.job_facts (
    tenant_id              text           NOT NULL,
    id                     uuid           NOT NULL,
    principal              text           NOT NULL,
    model                  text           NOT NULL,
    provider               text           NOT NULL,
    lane                   text           NOT NULL,
    spec_version           smallint       NOT NULL,
    create_time            timestamptz    NOT NULL,
    labels                 jsonb          NOT NULL,
    traceparent            text           NOT NULL,
    tracestate             text           NOT NULL,
    create_ledger          text           NOT NULL,
    -- Limits of the spec, defaults filled in; durations in seconds.
    max_output_tokens      bigint         NOT NULL CHECK (max_output_tokens > 0),
    attempt_timeout        double precision NOT NULL CHECK (attempt_timeout > 0),
    queue_timeout          double precision NOT NULL CHECK (queue_timeout > 0),
    schedule_time          timestamptz,
    max_attempts           integer        NOT NULL CHECK (max_attempts >= 1),
    unknown_outcome_policy text           NOT NULL CHECK (unknown_outcome_policy IN ('RETRY', 'HOLD', 'FAIL')),
    -- Money: captures are made at the stored rate card, so that accepting a result needs nobody else.
    price_basis            text           NOT NULL CHECK (price_basis IN ('QUOTE', 'LIVE', 'LAST_KNOWN')),
    price_version          text           NOT NULL,
    quote_id               uuid,
    rate_card              jsonb          NOT NULL,
    provider_rate_card     jsonb          NOT NULL,
    input_token_bound      bigint         NOT NULL CHECK (input_token_bound >= 0),
    input_token_estimate   bigint         NOT NULL CHECK (input_token_estimate >= 0),
    quoted_amount          numeric(24, 9) NOT NULL CHECK (quoted_amount >= 0),
    attempt_worst_case     numeric(24, 9) NOT NULL CHECK (attempt_worst_case >= 0),
    max_charge             numeric(24, 9) CHECK (max_charge >= 0),
    provider_cost_limit    numeric(24, 9) NOT NULL CHECK (provider_cost_limit >= 0),
    PRIMARY KEY (tenant_id, id)
) PARTITION BY RANGE (id);

-- What the model is asked. Its own table, because it has its own lifetime and its own scope to read.
CREATE TABLE hourglass.job_payloads (
    tenant_id text  NOT NULL,
    id        uuid  NOT NULL,
    messages  jsonb NOT NULL,
    sampling  jsonb NOT NULL,
    PRIMARY KEY (tenant_id, id)
) PARTITION BY RANGE (id);

-- What the model answered: one row a job for good, so that a second acceptance cannot stand beside the first.
CREATE TABLE hourglass.job_results (
    tenant_id           text        NOT NULL,
    id                  uuid        NOT NULL,
    attempt_number      integer     NOT NULL,
    accept_time         timestamptz NOT NULL,
    finish_reason       text        NOT NULL,
    provider_model      text        NOT NULL,
    input_tokens        bigint      NOT NULL,
    cached_input_tokens bigint      NOT NULL,
    output_tokens       bigint      NOT NULL,
    text                text        NOT NULL,
    PRIMARY KEY (tenant_id, id)
) PARTITION BY RANGE (id);

-- How a job ended. Insert-only but for two operator decisions: erasure sets erase_time, RetryJob takes the row back.
CREATE TABLE hourglass.finished_jobs (
    tenant_id           text           NOT NULL,
    id                  uuid           NOT NULL,
    lane                text           NOT NULL,
    spec_version        smallint       NOT NULL,
    priority            smallint       NOT NULL,
    state               text           NOT NULL,
    state_cause         text           NOT NULL,
    epoch               bigint         NOT NULL,
    last_sequence       bigint         NOT NULL,
    end_time            timestamptz    NOT NULL,
    ready_time          timestamptz    NOT NULL,
    attempt_number      integer        NOT NULL,
    counted_attempts    integer        NOT NULL,
    reservation_number  smallint       NOT NULL,
    cancel_request_time timestamptz,
    cancel_principal    text,
    cancel_reason       text,
    erase_time          timestamptz,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT finished_jobs_state_check CHECK (state IN ('SUCCEEDED', 'FAILED', 'CANCELLED', 'EXPIRED')),
    CONSTRAINT finished_jobs_cancel_check CHECK (state <> 'CANCELLED' OR cancel_request_time IS NOT NULL)
) PARTITION BY RANGE (id);

-- One claim and what came of it, written when it ends by whoever ends it.
CREATE TABLE hourglass.attempts (
    tenant_id           text           NOT NULL,
    job_id              uuid           NOT NULL,
    number              integer        NOT NULL CHECK (number >= 1),
    run_token           uuid           NOT NULL,
    worker_id           text           NOT NULL,
    claim_time          timestamptz    NOT NULL,
    send_time           timestamptz,
    first_token_time    timestamptz,
    end_time            timestamptz    NOT NULL,
    outcome             text           NOT NULL,
    cause               text           NOT NULL,
    error_class         text           CHECK (error_class IN ('PERMANENT', 'PLATFORM', 'TRANSIENT', 'UNKNOWN')),
    error_message       text           NOT NULL DEFAULT '',
    provider_request_id text           NOT NULL DEFAULT '',
    counted             boolean        NOT NULL,
    input_tokens        bigint         NOT NULL DEFAULT 0,
    cached_input_tokens bigint         NOT NULL DEFAULT 0,
    output_tokens       bigint         NOT NULL DEFAULT 0,
    cost                numeric(24, 9) NOT NULL DEFAULT 0 CHECK (cost >= 0),
    cost_basis          text           CHECK (cost_basis IN ('REPORTED', 'ESTIMATED', 'UNKNOWN')),
    worst_case          numeric(24, 9) NOT NULL DEFAULT 0 CHECK (worst_case >= 0),
    PRIMARY KEY (tenant_id, job_id, number),
    CONSTRAINT attempts_outcome_check CHECK (outcome IN ('SUCCEEDED', 'FAILED', 'UNKNOWN', 'CANCELLED', 'NOT_SENT')),
    CONSTRAINT attempts_not_sent_check CHECK (
        outcome <> 'NOT_SENT' OR (send_time IS NULL AND NOT counted AND cost = 0 AND cost_basis IS NULL)
    ),
    CONSTRAINT attempts_worst_case_basis_check CHECK (worst_case = 0 OR cost_basis = 'UNKNOWN')
) PARTITION BY RANGE (job_id);

-- The job's event log. Appended by the run that holds the token, or by whoever takes the row and opens the next epoch.
CREATE TABLE hourglass.job_events (
    tenant_id      text        NOT NULL,
    job_id         uuid        NOT NULL,
    sequence       bigint      NOT NULL CHECK (sequence > 0),
    kind           text        NOT NULL,
    event_time     timestamptz NOT NULL,
    attempt_number integer     NOT NULL,
    text           text,
    attributes     jsonb       NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, job_id, sequence),
    CONSTRAINT job_events_text_check CHECK ((text IS NOT NULL) = (kind = 'TOKEN_DELTA'))
) PARTITION BY RANGE (job_id);

-- One key, one job, for as long as the key lives. Looked up by the first 16 bytes of the key's SHA-256.
CREATE TABLE hourglass.idempotency_keys (
    tenant_id      text        NOT NULL,
    key_digest     bytea       NOT NULL CHECK (octet_length(key_digest) = 16),
    hash_version   smallint    NOT NULL,
    request_digest bytea       NOT NULL CHECK (octet_length(request_digest) = 32),
    job_id         uuid        NOT NULL,
    create_time    timestamptz NOT NULL,
    expire_time    timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, key_digest)
);
CREATE INDEX idempotency_keys_expire_index ON hourglass.idempotency_keys (expire_time);
