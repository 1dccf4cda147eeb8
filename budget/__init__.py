"""One deadline, spent on purpose: a budget that every call of a request takes as an argument.

The core (core, wire, policy, ledger, errors, spend) does no I/O; grpc_client, postgres and http adapt it to
what a service waits for; retry and fan_out build on it. Nothing here knows the rest of the project.
"""
