-- A lane is one provider route and model: the unit that is limited, paused and parked. No tenant data.
CREATE TABLE hourglass.lanes (
    lane        text        NOT NULL CHECK (length(lane) BETWEEN 1 AND 255),
    max_running integer     CHECK (max_running >= 0),
    running     integer     NOT NULL DEFAULT 0 CHECK (running >= 0),
    paused_time timestamptz,
    park_until  timestamptz,
    park_cause  text,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (lane),
    CONSTRAINT lanes_park_check CHECK ((park_until IS NULL) = (park_cause IS NULL))
);

-- When each lane was closed, so that the time in a parked lane does not count against a job's queue timeout.
-- A parking without a known end has 'infinity'; resuming sets the end.
CREATE TABLE hourglass.lane_closures (
    lane       text        NOT NULL REFERENCES hourglass.lanes,
    start_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    end_time   timestamptz NOT NULL,
    cause      text        NOT NULL,
    PRIMARY KEY (lane, start_time),
    CHECK (end_time >= start_time)
);
