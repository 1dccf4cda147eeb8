-- The least that can be committed: one small row.
UPDATE hourglass.retention_turn SET due_time = due_time
