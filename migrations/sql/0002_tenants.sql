-- Tenants, what they may do and what they have. Three tables, because three kinds of statement lock them:
-- operators change tenants, claims and creates count in tenant_limits, money moves in tenant_funds.
CREATE TABLE hourglass.tenants (
    tenant_id    text        NOT NULL CHECK (tenant_id ~ '^[a-z0-9-]{1,63}$'),
    display_name text        NOT NULL,
    create_time  timestamptz NOT NULL DEFAULT clock_timestamp(),
    update_time  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id)
);

CREATE TABLE hourglass.tenant_limits (
    tenant_id   text    NOT NULL REFERENCES hourglass.tenants,
    max_running integer NOT NULL DEFAULT 100 CHECK (max_running >= 0),
    max_queued  bigint  NOT NULL DEFAULT 100000 CHECK (max_queued >= 0),
    weight      integer NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 1000),
    running     integer NOT NULL DEFAULT 0 CHECK (running >= 0),
    queued      bigint  NOT NULL DEFAULT 0 CHECK (queued >= 0),
    PRIMARY KEY (tenant_id)
);

-- The totals outlive the rows that they sum up: retention moves what it drops into the archived columns.
CREATE TABLE hourglass.tenant_funds (
    tenant_id         text           NOT NULL REFERENCES hourglass.tenants,
    funded            numeric(24, 9) NOT NULL DEFAULT 0,
    available         numeric(24, 9) NOT NULL DEFAULT 0 CONSTRAINT tenant_funds_available_check CHECK (available >= 0),
    reserved          numeric(24, 9) NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    captured          numeric(24, 9) NOT NULL DEFAULT 0 CHECK (captured >= 0),
    archived_captured numeric(24, 9) NOT NULL DEFAULT 0 CHECK (archived_captured >= 0),
    PRIMARY KEY (tenant_id),
    CONSTRAINT tenant_funds_balance_check CHECK (funded = available + reserved + captured)
);

-- Money that came in or was taken out. The request_id makes each movement happen once; rows are kept for good.
CREATE TABLE hourglass.fundings (
    tenant_id   text           NOT NULL REFERENCES hourglass.tenants,
    request_id  text           NOT NULL CHECK (length(request_id) BETWEEN 1 AND 255),
    amount      numeric(24, 9) NOT NULL CHECK (amount <> 0),
    actor       text           NOT NULL,
    reason      text           NOT NULL,
    create_time timestamptz    NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, request_id)
);

-- Operator decisions that were carried out, so that the same request_id changes nothing more.
-- tenant_id '*' stands for decisions about no single tenant (lanes, bulk calls).
CREATE TABLE hourglass.operator_requests (
    tenant_id      text        NOT NULL,
    request_id     text        NOT NULL CHECK (length(request_id) BETWEEN 1 AND 255),
    action         text        NOT NULL,
    request_digest bytea       NOT NULL CHECK (octet_length(request_digest) = 32),
    create_time    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, request_id)
);

CREATE TABLE hourglass.audit_log (
    tenant_id   text        NOT NULL,
    id          uuid        NOT NULL,
    action      text        NOT NULL,
    actor       text        NOT NULL,
    request_id  text,
    reason      text,
    subject     text        NOT NULL,
    details     jsonb       NOT NULL DEFAULT '{}',
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, id)
) PARTITION BY RANGE (id);
