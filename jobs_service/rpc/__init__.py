"""The service over gRPC, and its clients of other services: the only place where messages are."""
