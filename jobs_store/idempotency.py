"""What an idempotency key is compared by (AIP-155): our own canonical form of the spec, in versions.

The hash is taken over the spec with every default of its version spelled out, so that a spelled-out default
and an absent one are the same, and so that a key made before a release changed a default still matches: the
version is stored with the key, and a replay is compared under that version. The quote is not part of it.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

from jobs_store.stored_json import dump

HASH_VERSION: Final = 1
"""The version that new keys are made with."""

DEFAULTS: Final[Mapping[int, Mapping[str, object]]] = {
    1: {
        "max_output_tokens": 1024,
        "max_charge": None,
        "provider_cost_limit": None,
        "attempt_timeout": 90.0,
        "max_attempts": 3,
        "unknown_outcome_policy": None,
        "priority": 0,
        "schedule_time": None,
        "queue_timeout": 86400.0,
        "labels": {},
        "temperature": None,
        "top_p": None,
        "stop": [],
        "seed": None,
    },
}
"""Per version: the default of every field that may be absent. A version that was released never changes."""


def key_digest(idempotency_key: str) -> bytes:
    """The 16 bytes that a key is looked up by."""
    return hashlib.sha256(idempotency_key.encode()).digest()[:16]


def request_digest(spelled_out: Mapping[str, object], version: int = HASH_VERSION) -> bytes:
    """The 32 bytes that specs are compared by. `spelled_out` has the fields that the caller gave, by name.

    Raises KeyError for a version that this release does not know.
    """
    canonical = {**DEFAULTS[version], **spelled_out}
    text = dump(dict(sorted(canonical.items())))
    return hashlib.sha256(f"{version}\n{text}".encode()).digest()
