"""Stored values to generated messages and back: used by the rpc modules of the services alone."""
