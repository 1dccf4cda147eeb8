"""JSON as it goes to and comes from Postgres. Amounts travel as strings, so that no digit is lost."""

import json
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID


def dump(value: object) -> str:
    """JSON text of plain values, ids, amounts and times."""
    return json.dumps(value, default=_plain, ensure_ascii=False, separators=(",", ":"))


def load_object(text: str) -> Mapping[str, Any]:
    """The object in a JSON text that a statement answered."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise TypeError(f"a stored JSON object was expected, not {type(value).__name__}")
    return value


def load_array(text: str) -> list[Any]:
    """The array in a JSON text that a statement answered."""
    value = json.loads(text)
    if not isinstance(value, list):
        raise TypeError(f"a stored JSON array was expected, not {type(value).__name__}")
    return value


def _plain(value: object) -> str:
    match value:
        case UUID() | Decimal():
            return str(value)
        case datetime():
            return value.isoformat()
        case _:
            raise TypeError(f"{type(value).__name__} has no stored form")
