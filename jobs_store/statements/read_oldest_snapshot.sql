-- How far the oldest snapshot in this database holds vacuum back, in transactions and in seconds; NULLs when that may not be
-- seen. Takes no lock.
SELECT s.transactions, s.seconds FROM hourglass.oldest_snapshot() s
