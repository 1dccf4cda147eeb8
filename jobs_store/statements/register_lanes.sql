-- Makes the lanes that a worker serves known, so that their limits have a row to stand on.
INSERT INTO hourglass.lanes (lane)
SELECT lane FROM unnest($1::text[]) AS l (lane) ORDER BY lane
ON CONFLICT (lane) DO NOTHING
