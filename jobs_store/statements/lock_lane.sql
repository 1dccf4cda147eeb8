-- Locks a lane, which claims lock too: what is decided about it holds for every claim that comes after. Waits for them.
SELECT lane FROM hourglass.lanes WHERE lane = $1 FOR NO KEY UPDATE
