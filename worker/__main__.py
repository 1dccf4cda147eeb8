"""`python -m worker`."""

import sys
from functools import partial

from servicekit.command_line import overrides
from servicekit.lifecycle import run_process
from servicekit.logs import configure_logs
from servicekit.settings import SettingsError
from worker.app import run
from worker.settings import WorkerSettings


def main() -> int:
    """Runs jobs until SIGTERM. The exit code: 0, 1 after a crash, 2 for wrong settings."""
    try:
        settings = WorkerSettings.load(**overrides("python -m worker"))
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    configure_logs("worker", level=settings.log_level, log_format=settings.log_format)
    return run_process(partial(run, settings))


if __name__ == "__main__":
    sys.exit(main())
