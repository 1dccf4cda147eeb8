-- Counts the lanes. Takes no lock.
SELECT count(*) FROM hourglass.lanes
