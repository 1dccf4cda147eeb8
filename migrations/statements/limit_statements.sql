-- Bound the waits for locks ($1) and the statements ($2), both in ms; $3 = for this transaction only.
SELECT set_config('lock_timeout', $1, $3), set_config('statement_timeout', $2, $3)
