-- What a request_id has moved.
SELECT amount FROM hourglass.fundings WHERE tenant_id = $1 AND request_id = $2
