"""How large requests may be."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from jobs_store.money import MAX_AMOUNT

HOUR: Final = 3600.0
DAY: Final = 24 * HOUR
LONGEST_KEY: Final = 255
LONGEST_MODEL: Final = 256
LONGEST_REASON: Final = 255
MOST_QUOTED_MODELS: Final = 16
HIGHEST_AMOUNT: Final[Decimal] = MAX_AMOUNT


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a spec may ask for, whatever the model. Durations in seconds.

    payload_bytes: UTF-8 bytes of all message contents together.
    schedule_ahead: how far ahead a job may be scheduled.
    """

    payload_bytes: int = 1024 * 1024
    messages: int = 4096
    max_output_tokens: int = 1_000_000
    attempt_timeout: float = HOUR
    max_attempts: int = 20
    queue_timeout: float = 30 * DAY
    schedule_ahead: float = 366 * DAY
    highest_priority: int = 100
    labels: int = 32
    label_value_bytes: int = 255
    stop_sequences: int = 4
    stop_sequence_characters: int = 256
