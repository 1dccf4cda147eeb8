-- A quote, and whether its time is over by the database's clock.
SELECT input_token_bound, max_output_tokens, lines, expire_time, expire_time <= clock_timestamp() AS expired,
       used_time IS NOT NULL AS used
FROM hourglass.quotes
WHERE tenant_id = $1 AND id = $2
