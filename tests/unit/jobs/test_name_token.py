"""Page tokens of lists by name: good for the method that made them, and for no other."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs_service.domain.name_token import name_of, name_token
from jobs_service.domain.page_token import MalformedToken


@given(name=st.text(min_size=1, max_size=255).filter(lambda text: text.isprintable()))
def test_a_token_leads_to_its_name(name: str) -> None:
    assert name == name_of(name_token("ListLanes", name), "ListLanes")


def test_no_token_is_the_first_page() -> None:
    assert "" == name_of("", "ListLanes")


@pytest.mark.parametrize(
    "token",
    ["a", "openai/gpt-5", name_token("ListTenants", "acme"), name_token("ListLanes", "acme")[:-3], "é"],
)
def test_what_the_method_did_not_make_is_refused(token: str) -> None:
    with pytest.raises(MalformedToken):
        name_of(token, "ListLanes")


def test_a_token_does_not_show_its_name_at_a_glance_and_cannot_be_changed() -> None:
    token = name_token("ListLanes", "openai/gpt-5")
    assert "openai" not in token
    raw = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    raw[-1] ^= 1
    with pytest.raises(MalformedToken):
        name_of(base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("="), "ListLanes")
