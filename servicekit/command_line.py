"""What a process takes on its command line: next to nothing, for its settings come from the environment."""

import argparse
from collections.abc import Mapping, Sequence


def overrides(program: str, arguments: Sequence[str] | None = None) -> Mapping[str, bool]:
    """What the command line says instead of the environment, for `Settings.load`. Ends the process for what
    it does not know, and after --help."""
    parser = argparse.ArgumentParser(
        prog=program, description="Serves until SIGTERM. docs/config.md lists the variables that it reads."
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="listen beyond loopback without TLS or authentication: whoever can reach it is believed",
    )
    return {"insecure": True} if parser.parse_args(arguments).insecure else {}
