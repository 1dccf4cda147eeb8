-- When a provider was last asked what became of a held job's attempt: all workers share the one pace.
ALTER TABLE hourglass.jobs ADD COLUMN look_up_time timestamptz;
