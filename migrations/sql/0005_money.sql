-- Money set aside for a job: the first at the create, one more at each retry by an operator. Settled once.
CREATE TABLE hourglass.reservations (
    tenant_id    text           NOT NULL,
    job_id       uuid           NOT NULL,
    number       smallint       NOT NULL CHECK (number >= 1),
    amount       numeric(24, 9) NOT NULL CHECK (amount >= 0),
    captured     numeric(24, 9) NOT NULL DEFAULT 0 CHECK (captured >= 0),
    released     numeric(24, 9) NOT NULL DEFAULT 0 CHECK (released >= 0),
    create_time  timestamptz    NOT NULL,
    settle_time  timestamptz,
    settle_cause text,
    PRIMARY KEY (tenant_id, job_id, number),
    CONSTRAINT reservations_settled_check CHECK (
        CASE WHEN settle_time IS NULL THEN captured = 0 AND released = 0 AND settle_cause IS NULL
             ELSE amount = captured + released AND settle_cause IS NOT NULL END
    )
) PARTITION BY RANGE (job_id);

-- What went beyond a reservation: the operator's loss, never the tenant's.
CREATE TABLE hourglass.overruns (
    tenant_id          text           NOT NULL,
    subject_id         uuid           NOT NULL,
    reservation_number smallint       NOT NULL,
    amount             numeric(24, 9) NOT NULL CHECK (amount > 0),
    create_time        timestamptz    NOT NULL,
    PRIMARY KEY (tenant_id, subject_id, reservation_number)
) PARTITION BY RANGE (subject_id);

-- A short call that needs no job: the money of one Generate, reserved before the send and settled in every ending.
CREATE TABLE hourglass.calls (
    tenant_id           text           NOT NULL,
    id                  uuid           NOT NULL,
    principal           text           NOT NULL,
    model               text           NOT NULL,
    lane                text           NOT NULL,
    create_time         timestamptz    NOT NULL,
    deadline            timestamptz    NOT NULL,
    price_version       text           NOT NULL,
    amount              numeric(24, 9) NOT NULL CHECK (amount >= 0),
    captured            numeric(24, 9) NOT NULL DEFAULT 0 CHECK (captured >= 0),
    released            numeric(24, 9) NOT NULL DEFAULT 0 CHECK (released >= 0),
    settle_time         timestamptz,
    outcome             text           CHECK (outcome IN ('SUCCEEDED', 'FAILED', 'UNKNOWN', 'CANCELLED', 'NOT_SENT')),
    cause               text,
    provider_request_id text           NOT NULL DEFAULT '',
    input_tokens        bigint         NOT NULL DEFAULT 0,
    cached_input_tokens bigint         NOT NULL DEFAULT 0,
    output_tokens       bigint         NOT NULL DEFAULT 0,
    cost                numeric(24, 9) NOT NULL DEFAULT 0 CHECK (cost >= 0),
    cost_basis          text           CHECK (cost_basis IN ('REPORTED', 'ESTIMATED', 'UNKNOWN')),
    worst_case          numeric(24, 9) NOT NULL CHECK (worst_case >= 0),
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT calls_settled_check CHECK (
        CASE WHEN settle_time IS NULL THEN captured = 0 AND released = 0 AND outcome IS NULL AND cause IS NULL
             ELSE amount = captured + released AND outcome IS NOT NULL AND cause IS NOT NULL END
    )
) PARTITION BY RANGE (id);
CREATE INDEX calls_unsettled_index ON hourglass.calls (deadline) WHERE settle_time IS NULL;

-- A priced answer that one create may use.
CREATE TABLE hourglass.quotes (
    tenant_id         text        NOT NULL,
    id                uuid        NOT NULL,
    principal         text        NOT NULL,
    create_time       timestamptz NOT NULL,
    expire_time       timestamptz NOT NULL,
    input_token_bound bigint      NOT NULL CHECK (input_token_bound >= 0),
    max_output_tokens bigint      NOT NULL CHECK (max_output_tokens > 0),
    lines             jsonb       NOT NULL,
    used_time         timestamptz,
    used_job_id       uuid,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT quotes_used_check CHECK ((used_time IS NULL) = (used_job_id IS NULL))
) PARTITION BY RANGE (id);
