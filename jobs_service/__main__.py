"""`python -m jobs_service`."""

import sys

from jobs_service.app import run
from jobs_service.settings import JobsSettings
from servicekit.start import start

if __name__ == "__main__":
    sys.exit(start("jobs_service", "jobs", JobsSettings, run))
