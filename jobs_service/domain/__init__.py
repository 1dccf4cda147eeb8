"""Decisions about jobs, quotes and streams: pure, no I/O."""
