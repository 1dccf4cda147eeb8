"""Text that Postgres can store: no U+0000 and no lone surrogate; both become U+FFFD."""

from __future__ import annotations

import re
from typing import Final

REPLACEMENT: Final = "\ufffd"
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_HIGH_SURROGATES: Final = ("\ud800", "\udbff")


def storable(text: str) -> str:
    """The text with surrogate pairs joined and what cannot be stored replaced."""
    if _UNSTORABLE.search(text) is None:
        return text
    # UTF-16 is where surrogates are pairs: decoding joins whole ones and replaces the others.
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined.replace("\x00", REPLACEMENT)


class StorableStream:
    """Makes the pieces of a stream storable; a surrogate pair may be split between two of them."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """What of the text so far is certain and new."""
        text = self._held + piece
        ends_in_half = bool(text) and _HIGH_SURROGATES[0] <= text[-1] <= _HIGH_SURROGATES[1]
        self._held = text[-1] if ends_in_half else ""
        return storable(text[:-1] if ends_in_half else text)

    def finish(self) -> str:
        """What was held back until the end."""
        held, self._held = self._held, ""
        return storable(held)
