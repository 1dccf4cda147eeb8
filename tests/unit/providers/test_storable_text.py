"""Whatever a provider sends, what comes out can be stored, and good text is not touched."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from worker.providers.storable_text import StorableStream, storable

anything = st.text(alphabet=st.characters(codec=None))
good_text = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x00"))


@given(anything)
def test_every_text_becomes_storable(text: str) -> None:
    stored = storable(text)
    assert "\x00" not in stored
    assert stored.encode().decode() == stored


@given(good_text)
def test_good_text_stays_as_it_is(text: str) -> None:
    assert storable(text) == text


@given(st.lists(anything))
def test_pieces_give_the_same_text_as_the_whole(pieces: list[str]) -> None:
    stream = StorableStream()
    streamed = "".join([*(stream.feed(piece) for piece in pieces), stream.finish()])
    assert streamed == storable("".join(pieces))


def test_a_pair_that_is_split_between_two_pieces_is_one_character() -> None:
    stream = StorableStream()
    assert [stream.feed("a\ud83d"), stream.feed("\ude00b"), stream.finish()] == ["a", "\U0001f600b", ""]


def test_half_a_pair_at_the_end_is_replaced() -> None:
    stream = StorableStream()
    assert [stream.feed("a\ud83d"), stream.finish()] == ["a", "\ufffd"]
