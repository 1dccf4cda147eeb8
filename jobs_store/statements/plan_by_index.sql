-- Lets the rest of the transaction plan as the services' roles do: by index, and without counting on statistics that may be
-- old; and run by itself, whatever its cost is taken for. Reports of people, under the same role, plan as they like. Comes
-- before the statements that it is about.
SELECT set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('jit', 'off', true), set_config('max_parallel_workers_per_gather', '0', true)
