"""Who calls, how that was proven, and what they may do."""
