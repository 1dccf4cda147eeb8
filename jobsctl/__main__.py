"""`jobsctl`, or `python -m jobsctl`: every ending becomes an exit code and at most a few lines on stderr."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from jobsctl.commands.root import root
from jobsctl.exits import ExitCode, Failure, ReaderGone


def main() -> NoReturn:
    """The entry point."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        ended = root.main(list(arguments), prog_name="jobsctl", standalone_mode=False)
        sys.stdout.flush()
    except Failure as failure:
        return _told(str(failure), failure.code)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return ExitCode.INTERRUPTED
    except ReaderGone:
        return _reader_gone()
    except OSError as error:
        return _told(f"CANNOT_WRITE: {error.strerror or error}", ExitCode.REFUSED)
    except Exception as error:  # noqa: BLE001 - a fault of ours is told like every other failure
        return _told(f"INTERNAL: {type(error).__name__}: {error}", ExitCode.REFUSED)
    return ended if isinstance(ended, int) else ExitCode.OK


def _told(text: str, code: ExitCode) -> int:
    click.echo(text, err=True)
    return code


def _reader_gone() -> int:
    """Nothing may be flushed to stdout at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.BROKEN_PIPE


if __name__ == "__main__":
    main()
