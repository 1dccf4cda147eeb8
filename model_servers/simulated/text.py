"""What a simulated model says: words chosen by the prompt, so that the same request gives the same answer."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_WORDS: Final = (
    "sand", "falls", "through", "the", "narrow", "neck", "and", "every", "grain", "is", "counted", "once",
    "a", "clock", "waits", "for", "no", "answer", "while", "glass", "turns", "slowly", "time", "remains",
    "what", "was", "promised", "will", "be", "kept", "when", "hours", "end", "in", "quiet", "order",
)  # fmt: skip
_BYTES_PER_TOKEN: Final = 4
_TOKENS_PER_MESSAGE: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What is asked: the message contents, the most tokens that may be answered, and a seed."""

    contents: tuple[str, ...]
    max_tokens: int | None
    seed: int

    @property
    def input_tokens(self) -> int:
        """How many tokens this server counts for the prompt: about four bytes each."""
        return sum(len(c.encode()) // _BYTES_PER_TOKEN + _TOKENS_PER_MESSAGE for c in self.contents)


def answer_tokens(prompt: Prompt, wanted: int) -> Sequence[str]:
    """The tokens of the answer, one word each: ``wanted`` of them, or as many as the prompt allows."""
    count = wanted if prompt.max_tokens is None else min(wanted, prompt.max_tokens)
    digest = hashlib.sha256("\x00".join((*prompt.contents, str(prompt.seed))).encode()).digest()
    words = random.Random(digest).choices(_WORDS, k=count)
    return [word if n == 0 else f" {word}" for n, word in enumerate(words)]
