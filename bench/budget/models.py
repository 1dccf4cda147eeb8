"""What a call does is decided by the name of the model that it asks the price of."""

from typing import Final

QUICK: Final = "quick"
"""Pricing answers at once; one INSERT."""
HUNG: Final = "hung"
"""Pricing never answers."""
TURNED: Final = "turned"
"""Pricing answers, until it is told to hang these."""
SLOTTED: Final = "slotted"
"""Pricing has a fixed capacity."""
TRANSACTION: Final = "transaction"
"""As QUICK; the INSERT stands in a transaction."""
PROVIDER: Final = "provider"
"""As QUICK, then an HTTP stream whose first byte never comes."""
