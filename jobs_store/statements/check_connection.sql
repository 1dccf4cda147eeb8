-- Asks the server for a sign of life. Takes no lock.
SELECT 1 AS alive
