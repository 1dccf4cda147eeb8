"""Streams of the contract that this version does not fill."""

from collections.abc import Iterable
from typing import Any

from servicekit.errors import NotImplementedYet


def not_filled(method: str) -> Iterable[Any]:
    """The responses of a stream that has none: raises NotImplementedYet."""
    raise NotImplementedYet(method)
