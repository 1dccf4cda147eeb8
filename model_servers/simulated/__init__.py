"""A deterministic model server that misbehaves on request: ``python -m model_servers.simulated``."""
