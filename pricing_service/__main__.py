"""`python -m pricing_service`."""

import sys

from pricing_service.app import run
from pricing_service.settings import PricingSettings
from servicekit.start import start

if __name__ == "__main__":
    sys.exit(start("pricing_service", "pricing", PricingSettings, run))
