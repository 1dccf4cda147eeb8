-- What an operator's request_id was used for.
SELECT action, request_digest, create_time FROM hourglass.operator_requests WHERE tenant_id = $1 AND request_id = $2
