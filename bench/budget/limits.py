"""The limits that both sides work under, in seconds."""

from typing import Final

from budget.policy import Policy

CALLER_BUDGET: Final = 0.3
"""What every caller gives."""

PRICING: Final = Policy(dependency="pricing", method="GetPrice", limit=0.2, floor=0.02)
INSERT: Final = Policy(dependency="postgres", method="insert_quote", limit=0.15, floor=0.01)
PROVIDER_FIRST_TOKEN: Final = 0.15

FIXED_TIMEOUT: Final = 1.0
"""What the handler without budgets waits for each of its dependencies."""

POOL_SIZE: Final = 16
