-- Claims and gives back, round after round, in a session of its own. The claim's statement is put in below; its
-- arguments are the first ten here. Fails as soon as a claim brings more than it asked for.
CREATE PROCEDURE hourglass.churn(text[], smallint, integer, text, text, double precision, text, integer, integer, integer,
                                 rounds_to_go integer) LANGUAGE plpgsql AS $churn$
#variable_conflict use_column
DECLARE
    v_row record;
    v_brought integer;
BEGIN
    FOR v_round IN 1..$11 LOOP
        v_brought := 0;
        FOR v_row IN
:claim
        LOOP
            v_brought := v_brought + 1;
        END LOOP;
        ASSERT v_brought <= $3, format('%s jobs for %s slots', v_brought, $3);
        COMMIT;
        UPDATE hourglass.churned SET rounds = rounds + 1, jobs = jobs + v_brought WHERE worker = $4;
        PERFORM FROM hourglass.lanes l WHERE l.lane = ANY ($1) ORDER BY l.lane FOR NO KEY UPDATE;
        PERFORM FROM hourglass.tenant_limits t ORDER BY t.tenant_id FOR NO KEY UPDATE;
        WITH back AS (
            UPDATE hourglass.jobs j
            SET state = 'QUEUED', state_cause = 'RELEASED', run_token = NULL, worker_id = NULL, worker_address = NULL,
                claim_time = NULL, lease_until = NULL,
                ready_time = clock_timestamp() + CASE WHEN random() < 0.1 THEN interval '5 ms' ELSE interval '0' END
            WHERE j.state = 'RUNNING' AND j.worker_id = $4
            RETURNING j.tenant_id
        ), lane AS (
            UPDATE hourglass.lanes l SET running = l.running - v_brought WHERE l.lane = ANY ($1)
        )
        UPDATE hourglass.tenant_limits t SET running = t.running - n.back, queued = t.queued + n.back
        FROM (SELECT b.tenant_id, count(*) AS back FROM back b GROUP BY b.tenant_id ORDER BY b.tenant_id) n
        WHERE t.tenant_id = n.tenant_id;
        COMMIT;
    END LOOP;
END
$churn$;
