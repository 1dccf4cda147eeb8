-- Drops one partition that is old, empty and stays so, and answers its name.
SELECT hourglass.drop_empty_partition() AS dropped
