"""What is held follows the files, and outlives whatever happens to them."""

from datetime import UTC, datetime

import pytest

from tests.certificates import Authority
from transport.files import Contents, Part, TlsFiles, WrongFiles
from transport.held import HeldFiles


class Heard:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.taken = 0
        self.refusals: list[WrongFiles] = []

    def took(self, contents: Contents) -> None:
        self.taken += 1

    def refused(self, error: WrongFiles) -> None:
        self.refusals.append(error)


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def move(self, seconds: float) -> None:
        self.now += seconds


class Held:
    """Files of one server, and what is held of them."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self.heard, self.clock = Heard(), Clock()
        self.certificate, self.key = authority.pair("server")
        files = TlsFiles(certificate=self.certificate, key=self.key, authorities=authority.file)
        self.held = HeldFiles(files, watcher=self.heard, interval=5.0, clock=self.clock)

    def later(self) -> Contents:
        self.clock.move(5.0)
        return self.held.current()


@pytest.fixture
def server(authority: Authority) -> Held:
    return Held(authority)


def test_files_are_looked_at_once_an_interval(server: Held) -> None:
    before = server.held.current()
    server.authority.pair("server")

    server.clock.move(4.9)
    assert before is server.held.current()
    server.clock.move(0.1)
    assert before is not server.held.current()
    assert 1 == server.heard.taken


def test_the_same_files_are_the_same_contents(server: Held) -> None:
    before = server.held.current()
    server.key.write_bytes(server.key.read_bytes())

    assert before is server.later()
    assert 0 == server.heard.taken


def test_a_pair_that_is_half_written_is_taken_up_when_it_is_whole(server: Held, other: Authority) -> None:
    before = server.held.current()
    certificate, key = other.pair("new")

    server.certificate.write_bytes(certificate.read_bytes())
    assert before is server.later()
    assert before is server.later()
    assert [{Part.KEY}] == [set(error.problems) for error in server.heard.refusals]

    server.key.write_bytes(key.read_bytes())
    after = server.later()
    assert (key.read_bytes(), certificate.read_bytes()) == after.pair
    assert 1 == server.heard.taken


@pytest.mark.parametrize("part", ["certificate", "key"])
def test_a_file_that_is_gone_changes_nothing(server: Held, part: str) -> None:
    before = server.held.current()
    getattr(server, part).unlink()

    assert before is server.later()
    assert ["cannot be read: No such file or directory"] == [
        str(error).partition("' ")[2] for error in server.heard.refusals
    ]


def test_the_same_trouble_is_told_again_after_it_had_passed(server: Held) -> None:
    good = server.key.read_bytes()
    for content in (b"bad", b"bad", good, b"bad"):
        server.key.write_bytes(content)
        server.later()

    assert 2 == len(server.heard.refusals)


def test_an_expired_certificate_does_not_replace_a_good_one(server: Held) -> None:
    before = server.held.current()
    server.authority.pair("server", expired=True)

    assert before is server.later()
    assert "has expired" in str(server.heard.refusals[0])


def test_the_time_that_is_left_falls_below_zero(authority: Authority) -> None:
    certificate, key = authority.pair("server")
    held = HeldFiles(TlsFiles(certificate=certificate, key=key))
    assert held.remaining()[Part.CERTIFICATE] > 0

    held._now = lambda: datetime(9999, 1, 1, tzinfo=UTC)
    assert held.remaining()[Part.CERTIFICATE] < 0


def test_there_is_nothing_to_fall_back_on_at_the_start(authority: Authority) -> None:
    certificate, key = authority.pair("server", expired=True)

    with pytest.raises(WrongFiles, match="certificate: has expired"):
        HeldFiles(TlsFiles(certificate=certificate, key=key))
