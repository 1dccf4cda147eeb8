-- The start step: right before the provider is called, sets send_time on the rows whose token still stands and that
-- nobody asked to cancel. After it, an ending without the provider's answer is an unknown outcome. Sent again after a
-- commit of unknown outcome, it keeps the first time. Waits for job rows, in (tenant_id, id) order.
WITH input AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset($1) AS r (
        ordinal integer, tenant_id text, id uuid, run_token uuid, event integer, attributes jsonb
    )
), fenced AS MATERIALIZED (
    SELECT r.*, j.epoch, j.state AS prior_state, j.attempt_number, j.send_time, j.cancel_request_time
    FROM input r
    JOIN hourglass.jobs j ON j.tenant_id = r.tenant_id AND j.id = r.id
    WHERE j.run_token = r.run_token
    ORDER BY j.tenant_id, j.id
    FOR NO KEY UPDATE OF j
), judged AS MATERIALIZED (
    SELECT ordinal, tenant_id, id, event, attributes, epoch, attempt_number, coalesce(send_time, clock_timestamp()) AS sent,
           send_time IS NOT NULL AS sent_before,
           CASE WHEN cancel_request_time IS NOT NULL THEN 'CANCEL_REQUESTED'
                WHEN prior_state <> 'RUNNING' THEN 'LEASE_LOST'
                ELSE 'OK' END AS verdict
    FROM fenced
), started AS (
    UPDATE hourglass.jobs j
    SET send_time = r.sent, last_sequence = greatest(j.last_sequence, (r.epoch << 32) + r.event)
    FROM judged r
    WHERE r.verdict = 'OK' AND NOT r.sent_before AND j.tenant_id = r.tenant_id AND j.id = r.id
), events AS (
    INSERT INTO hourglass.job_events (tenant_id, job_id, sequence, kind, event_time, attempt_number, attributes)
    SELECT tenant_id, id, (epoch << 32) + event, 'ATTEMPT_SENT', sent, attempt_number, attributes
    FROM judged WHERE verdict = 'OK' AND NOT sent_before
)
SELECT r.ordinal, coalesce(j.verdict, 'LEASE_LOST') AS verdict, CASE WHEN j.verdict = 'OK' THEN j.sent END AS send_time
FROM input r LEFT JOIN judged j ON j.ordinal = r.ordinal
ORDER BY r.ordinal
