"""An upper bound for the input tokens of a prompt, known without the provider's tokenizer.

Byte-level BPE tokenizers (GPT, Llama, SmolLM and their kind) start from one token a UTF-8 byte and only
merge, and SentencePiece falls back to bytes; so a text never has more tokens than bytes. What a chat template
puts around a message (role, separators, special tokens) is covered by a constant per message.
This is a bound, never an average: English text has about four bytes a token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

TOKENS_PER_MESSAGE: Final = 16


def input_token_bound(contents: Iterable[str]) -> int:
    """Tokens that a prompt with these message contents can have at most.

    A lone surrogate counts as the three bytes that it would take; it is replaced before it is sent, by a
    character that takes three bytes too.
    """
    return sum(len(content.encode("utf-8", "surrogatepass")) + TOKENS_PER_MESSAGE for content in contents)
