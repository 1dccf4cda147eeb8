-- Rows that every batch of claims and endings counts in. With room on their page a new version of such a row stays there,
-- and no index has to learn of it; without, the index of a hundred tenants grows by one entry a tenant and batch.
ALTER TABLE hourglass.lanes SET (fillfactor = 20);
ALTER TABLE hourglass.tenant_limits SET (fillfactor = 20);
ALTER TABLE hourglass.tenant_funds SET (fillfactor = 20);

-- Refuses what calls it unless every ending has settled its reservation: so an ending is one statement and needs no
-- transaction around it, which would hold the locks of its tenants and lanes for two more trips.
CREATE FUNCTION hourglass.require_settled(endings bigint, settled bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF endings <> settled THEN
        RAISE EXCEPTION '% of % endings found no reservation to settle', endings - settled, endings
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reservations_settled_with_the_ending';
    END IF;
    RETURN true;
END
$$;
