-- Every partitioned table has its partitions of this week and the next: the reaper makes them weeks ahead, and without them
-- nothing can be written.
SELECT '' AS tenant_id, p.relname::text AS subject,
       format('has no partition for ids of %s', (w.day AT TIME ZONE 'UTC')::date) AS description
FROM pg_partitioned_table t
JOIN pg_class p ON p.oid = t.partrelid
CROSS JOIN (VALUES (clock_timestamp()), (clock_timestamp() + interval '7 days')) AS w (day)
WHERE p.relnamespace = 'hourglass'::regnamespace
  AND NOT EXISTS (
      SELECT FROM pg_inherits i
      JOIN pg_class c ON c.oid = i.inhrelid
      WHERE i.inhparent = p.oid
        AND (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''([0-9a-f-]+)''\)'))[1]::uuid
            <= hourglass.first_id_of(w.day)
        AND (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \(''([0-9a-f-]+)''\)'))[1]::uuid
            > hourglass.first_id_of(w.day)
  )
