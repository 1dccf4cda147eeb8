"""The story of one job: how it was made, what happened, what it cost, and what it waits for now."""
