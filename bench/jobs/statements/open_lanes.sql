-- From here on workers claim.
UPDATE hourglass.lanes SET paused_time = NULL
