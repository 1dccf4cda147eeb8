"""The stack on one machine, and the commands that run it."""

import os

# gRPC would get ready for forks that go on in Python, and say on stderr when it cannot; ours only become
# other programs. It reads this when it is first used.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
