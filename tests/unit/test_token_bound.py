"""The token bound is a bound: no text has more tokens than it says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobs_store.token_bound import TOKENS_PER_MESSAGE, input_token_bound


@given(st.lists(st.text(alphabet=st.characters(codec=None)), max_size=5))
def test_the_bound_covers_every_byte_and_every_message(contents: list[str]) -> None:
    sendable = [content.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for content in contents]
    every_byte = sum(len(content.encode()) for content in sendable)
    assert every_byte + TOKENS_PER_MESSAGE * len(contents) == input_token_bound(contents)


def test_a_known_bound() -> None:
    assert input_token_bound(["ab", "€"]) == 2 + 3 + 2 * TOKENS_PER_MESSAGE
