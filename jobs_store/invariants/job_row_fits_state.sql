-- The token stands on a job's row exactly while it is RUNNING or HELD; worker, claim and lease while it is RUNNING, the end
-- of a hold while it is HELD; a send or a wish to cancel on a RUNNING row only.
SELECT j.tenant_id, j.id::text AS subject,
       format('is %s%s', j.state, concat(
           CASE WHEN (j.run_token IS NOT NULL) <> (j.state IN ('RUNNING', 'HELD')) THEN '; the token does not fit' END,
           CASE WHEN (j.worker_id IS NOT NULL) <> (j.state = 'RUNNING') OR (j.claim_time IS NOT NULL) <> (j.state = 'RUNNING')
                THEN '; the worker does not fit' END,
           CASE WHEN (j.lease_until IS NOT NULL) <> (j.state = 'RUNNING') THEN '; the lease does not fit' END,
           CASE WHEN (j.hold_until IS NOT NULL) <> (j.state = 'HELD') THEN '; the hold does not fit' END,
           CASE WHEN j.send_time IS NOT NULL AND j.state <> 'RUNNING' THEN '; the send does not fit' END,
           CASE WHEN j.cancel_request_time IS NOT NULL AND j.state <> 'RUNNING' THEN '; the cancel does not fit' END
       )) AS description
FROM hourglass.jobs j
WHERE (j.tenant_id, j.id) > ($1, $2) AND (j.tenant_id, j.id) <= ($3, $4)
  AND (
      j.state NOT IN ('QUEUED', 'RUNNING', 'HELD')
      OR (j.run_token IS NOT NULL) <> (j.state IN ('RUNNING', 'HELD'))
      OR (j.worker_id IS NOT NULL) <> (j.state = 'RUNNING')
      OR (j.claim_time IS NOT NULL) <> (j.state = 'RUNNING')
      OR (j.lease_until IS NOT NULL) <> (j.state = 'RUNNING')
      OR (j.hold_until IS NOT NULL) <> (j.state = 'HELD')
      OR (j.send_time IS NOT NULL AND j.state <> 'RUNNING')
      OR (j.cancel_request_time IS NOT NULL AND j.state <> 'RUNNING')
  )
