"""Keepalive, reckoned: no ping of a client comes too early for a server, for as long as the two are silent.

gRFC A8: a server counts a ping as a strike when less than its minimum has passed since the last one, and
answers a third with GOAWAY `too_many_pings`. A client sends the next ping its interval after the last; each
may arrive late by what a connection may be slow, which is less than the time after which it is given up.
"""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from budget.grpc_client import CHANNEL_OPTIONS, SERVER_PING_OPTIONS
from hourglass_client.channel import DEFAULT_OPTIONS
from servicekit.channels import client_options, server_options
from servicekit.settings import ServerSettings

HOUR = 3600.0
CLIENTS = {"the client": DEFAULT_OPTIONS, "the services": client_options()}
SERVER = dict(server_options(ServerSettings(listen="127.0.0.1:0")))
INTERVAL = dict(CHANNEL_OPTIONS)["grpc.keepalive_time_ms"] / 1000
GIVEN_UP_AFTER = dict(CHANNEL_OPTIONS)["grpc.keepalive_timeout_ms"] / 1000
MINIMUM = dict(SERVER_PING_OPTIONS)["grpc.http2.min_ping_interval_without_data_ms"] / 1000
PINGS = int(HOUR / INTERVAL)


@given(st.lists(st.floats(0.0, GIVEN_UP_AFTER), min_size=PINGS, max_size=PINGS))
def test_an_hour_of_silence_earns_no_strike_however_late_each_ping_is(late: list[float]) -> None:
    arrivals = [number * INTERVAL + delay for number, delay in enumerate(late, 1)]
    gaps = [later - earlier for earlier, later in pairwise(arrivals)]
    assert [] == [gap for gap in gaps if gap < MINIMUM]


def test_the_worst_case_leaves_a_quarter_of_the_servers_minimum() -> None:
    assert INTERVAL - GIVEN_UP_AFTER >= 1.25 * MINIMUM


def test_every_client_and_every_server_has_these_settings() -> None:
    for name, options in CLIENTS.items():
        assert set(CHANNEL_OPTIONS) <= set(options), name
    assert set(SERVER_PING_OPTIONS) <= set(SERVER.items())


def test_pings_go_on_without_a_call_and_without_data_on_both_sides() -> None:
    """Without the first two a silent stream, or none, is never probed; without the third a server allows
    one ping in two hours to a client that has no call."""
    client = dict(CHANNEL_OPTIONS)
    assert (1, 0) == (
        client["grpc.keepalive_permit_without_calls"],
        client["grpc.http2.max_pings_without_data"],
    )
    assert 1 == SERVER["grpc.keepalive_permit_without_calls"]


def test_no_other_pings_are_sent_beside_them() -> None:
    """Probes of the bandwidth are pings too."""
    assert 0 == SERVER["grpc.http2.bdp_probe"] == dict(client_options())["grpc.http2.bdp_probe"]


def test_a_servers_own_pings_are_no_more_frequent_than_what_it_allows_itself() -> None:
    assert SERVER["grpc.keepalive_time_ms"] / 1000 >= MINIMUM
