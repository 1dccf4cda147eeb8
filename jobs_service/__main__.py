"""`python -m jobs_service`."""

import sys
from functools import partial

from jobs_service.app import run
from jobs_service.settings import JobsSettings
from servicekit.command_line import overrides
from servicekit.lifecycle import run_process
from servicekit.logs import configure_logs
from servicekit.settings import SettingsError


def main() -> int:
    """Serves until SIGTERM. The exit code: 0, 1 after a crash, 2 for wrong settings."""
    try:
        settings = JobsSettings.load(**overrides("python -m jobs_service"))
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    configure_logs("jobs", level=settings.log_level, log_format=settings.log_format)
    return run_process(partial(run, settings))


if __name__ == "__main__":
    sys.exit(main())
