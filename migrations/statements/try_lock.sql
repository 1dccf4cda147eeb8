-- Take the migrations' advisory lock for this session, or tell that another session holds it. Never waits:
-- a waiting statement would hold a snapshot, and CREATE INDEX CONCURRENTLY waits for every older snapshot.
SELECT pg_try_advisory_lock(hashtextextended('hourglass.migrations', 0))
