-- The smallest UUIDv7 of an instant: 48 bits of Unix milliseconds come first (RFC 9562, section 5.7).
CREATE FUNCTION hourglass.first_id_of(instant timestamptz) RETURNS uuid
LANGUAGE sql STABLE STRICT PARALLEL SAFE AS $$
    SELECT (lpad(to_hex(floor(extract(epoch FROM instant) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;

-- Makes the weekly partitions of every partitioned table, from last week to weeks_ahead from now, and answers how many
-- were missing. A new table is attached rather than made as a partition: that takes no lock that stops readers or
-- writers. There is no default partition, because attaching beside one would lock and read it.
CREATE FUNCTION hourglass.ensure_partitions(weeks_ahead integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    parent     record;
    week       timestamptz;
    this_week  timestamptz := date_trunc('week', clock_timestamp() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
    child_name text;
    made       integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('hourglass.ensure_partitions'));
    FOR parent IN
        SELECT c.relname FROM pg_partitioned_table p JOIN pg_class c ON c.oid = p.partrelid
        WHERE c.relnamespace = 'hourglass'::regnamespace ORDER BY c.relname
    LOOP
        FOR step IN -1..weeks_ahead LOOP
            week := this_week + step * interval '7 days';
            child_name := parent.relname || '_' || to_char(week AT TIME ZONE 'UTC', 'IYYY"w"IW');
            CONTINUE WHEN to_regclass(format('hourglass.%I', child_name)) IS NOT NULL;
            EXECUTE format('CREATE TABLE hourglass.%I (LIKE hourglass.%I INCLUDING ALL)', child_name, parent.relname);
            EXECUTE format(
                'ALTER TABLE hourglass.%I ATTACH PARTITION hourglass.%I FOR VALUES FROM (%L) TO (%L)',
                parent.relname, child_name,
                hourglass.first_id_of(week), hourglass.first_id_of(week + interval '7 days')
            );
            made := made + 1;
        END LOOP;
    END LOOP;
    RETURN made;
END
$$;
REVOKE ALL ON FUNCTION hourglass.ensure_partitions(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION hourglass.ensure_partitions(integer) TO hourglass_worker;

SELECT hourglass.ensure_partitions(4);
