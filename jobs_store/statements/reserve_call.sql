-- Makes the row of a short call and sets its money aside, or nothing: the caller rolls back unless the answer says that
-- the funds moved. The call comes before the funds, as everywhere. Nobody else knows the row before the commit, so only
-- the tenant's funds are waited for. $5 seconds until the caller's deadline; the clock is the database's own. A lane that
-- is paused or parked takes no call: lane_closed_for says how many seconds more, infinity when nobody knows.
WITH call AS (
    INSERT INTO hourglass.calls
        (tenant_id, id, principal, model, lane, create_time, deadline, price_version, amount, worst_case)
    SELECT $1, $2, $3, $4, $6, now, now + make_interval(secs => $5), $7, $8, $9
    FROM (SELECT clock_timestamp() AS now) clock
    RETURNING tenant_id, amount
), funds AS (
    UPDATE hourglass.tenant_funds f
    SET available = f.available - c.amount, reserved = f.reserved + c.amount
    FROM call c
    WHERE f.tenant_id = c.tenant_id AND f.available >= c.amount
    RETURNING f.tenant_id
)
SELECT
    EXISTS (SELECT FROM funds) AS funds_sufficed,
    EXISTS (SELECT FROM hourglass.tenants t WHERE t.tenant_id = $1) AS tenant_exists,
    (
        SELECT CASE WHEN l.paused_time IS NOT NULL OR l.park_until = 'infinity' THEN 'infinity'::double precision
                    WHEN l.park_until > clock_timestamp()
                    THEN extract(epoch FROM l.park_until - clock_timestamp())::double precision END
        FROM hourglass.lanes l WHERE l.lane = $6
    ) AS lane_closed_for,
    (SELECT f.available FROM hourglass.tenant_funds f WHERE f.tenant_id = $1) AS available_before
