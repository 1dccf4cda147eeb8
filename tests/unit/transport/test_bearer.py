"""Tokens of callers: replaced while the process runs, never shown, never sent where others read along."""

from pathlib import Path

import pytest

from hourglass_client import AsyncClient, Client
from hourglass_client.channel import checked_token
from transport.bearer import TokenFile, WrongToken, bearer, fixed, is_local


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("first\n")
    return path


def test_a_call_carries_the_token_of_the_moment(file: Path) -> None:
    clock = Clock()
    token = TokenFile(file, interval=1.0, clock=clock)
    assert (("authorization", "Bearer first"),) == bearer(token)
    file.write_text("second-one\n")
    assert "first" == token(), "the file is looked at once in a while"
    clock.now = 1.0
    assert (("authorization", "Bearer second-one"),) == bearer(token)
    assert () == bearer(None)


def test_a_secret_that_is_mounted_by_a_link_is_followed(tmp_path: Path) -> None:
    clock = Clock()
    for name in ("old", "new"):
        (tmp_path / name).write_text(name)
    link = tmp_path / "token"
    link.symlink_to("old")
    token = TokenFile(link, interval=1.0, clock=clock)
    fresh = tmp_path / "fresh"
    fresh.symlink_to("new")
    fresh.replace(link)
    clock.now = 1.0
    assert "new" == token()


@pytest.mark.parametrize("content", [None, "", "two words", "\n"])
def test_a_file_that_goes_wrong_leaves_the_last_good_token(file: Path, content: str | None) -> None:
    clock = Clock()
    token = TokenFile(file, interval=1.0, clock=clock)
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    clock.now = 1.0
    assert "first" == token()
    file.write_text("third-one")
    clock.now = 2.0
    assert "third-one" == token()


@pytest.mark.parametrize("content", ["", "two words", "caf\u00e9", "secret\x00"])
def test_what_is_no_token_is_refused_at_the_start_and_not_shown(tmp_path: Path, content: str) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    with pytest.raises(WrongToken) as of_file:
        TokenFile(path)
    with pytest.raises(WrongToken) as of_text:
        fixed(content)
    for wrong in (of_file, of_text):
        assert not content or content not in str(wrong.value)


@pytest.mark.parametrize(
    ("target", "local"),
    [
        ("127.0.0.1:50051", True),
        ("localhost:50051", True),
        ("[::1]:50051", True),
        ("unix:/run/jobs", True),
        ("ipv4:127.0.0.1:1", True),
        ("dns:///localhost:50051", True),
        ("jobs.internal:50051", False),
        ("dns:///jobs.internal:50051", False),
        ("10.0.0.7:50051", False),
        ("localhost.evil.test:50051", False),
        ("jobs", False),
    ],
)
def test_only_what_stays_on_this_machine_is_local(target: str, local: bool) -> None:
    assert local == is_local(target)


def test_a_client_sends_no_token_in_the_clear_unless_it_is_told_to() -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match="takes TLS, or plaintext_token"):
            kind.connect("jobs.internal:50051", token="secret")
    allowed = checked_token("secret", "jobs.internal:50051", encrypted=False, plaintext_token=True)
    assert allowed is not None
    assert "secret" == allowed()
    assert checked_token("secret", "jobs.internal:50051", encrypted=True, plaintext_token=False)
