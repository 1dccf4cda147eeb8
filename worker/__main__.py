"""`python -m worker`."""

import sys

from servicekit.start import start
from worker.app import run
from worker.settings import WorkerSettings

if __name__ == "__main__":
    sys.exit(start("worker", "worker", WorkerSettings, run))
