-- Sends a batch of wake-ups, one notification a pair. Its commit takes the one lock on the server's notification queue:
-- it runs by itself, so that no data transaction ever waits for that lock.
SELECT pg_notify(n.channel, n.payload)
FROM unnest($1::text[], $2::text[]) AS n (channel, payload)
