-- Makes the partitions of the coming weeks that are missing.
SELECT hourglass.ensure_partitions($1) AS made
