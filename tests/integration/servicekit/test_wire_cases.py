"""What a server of ours does about requests that no gRPC client sends, and clients that end as none should.

Sent as raw HTTP/2 to a whole server. Where C core answers by itself there is no reason, and docs/errors.md
lists it. Whatever happens, nothing is left over: no request in flight, no task.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any

import pytest
import structlog

from budget.core import Budget
from servicekit.call import Arrival, Principal, call_of, development_principal
from servicekit.core_answers import CORE_ANSWERS
from servicekit.drain import Drain
from servicekit.methods import Kind, MethodPolicy
from servicekit.request import Terms
from servicekit.server import Server
from servicekit.settings import ServerSettings
from tests.integration.servicekit.service import Context, Servicer, method
from tests.raw_http2 import RawAnswer, RawConnection, raw_connection
from tests.waiting import eventually

DEFAULT, CAP = 0.4, 0.8
UNARY, STREAM = method("unary_unary"), method("unary_stream_writer")
GENERATOR = method("unary_stream_generator")
METHODS = {
    UNARY: MethodPolicy(default=DEFAULT, cap=CAP),
    STREAM: MethodPolicy(default=DEFAULT, cap=CAP, kind=Kind.STREAM),
    GENERATOR: MethodPolicy(default=DEFAULT, cap=CAP, kind=Kind.STREAM),
}
OK, INVALID_ARGUMENT, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, INTERNAL = 0, 3, 4, 8, 13
Told = tuple[int | None, str, str]


@dataclass(kw_only=True)
class Served:
    """The server, what its handlers saw, and what it logged."""

    address: str
    drain: Drain
    logs: list[Any]
    budgets: list[float] = field(default_factory=list)
    """The budget of each request whose handler ran, in seconds."""
    cancelled: int = 0
    closed_in: list[asyncio.Task[Any] | None] = field(default_factory=list)
    """The tasks in which generators were closed."""
    requests: list[asyncio.Task[Any] | None] = field(default_factory=list)
    """The tasks of the requests."""

    async def authenticate(self, arrival: Arrival, budget: Budget) -> Principal:
        self.requests.append(asyncio.current_task())
        return await development_principal(arrival, budget)

    async def quick(self, context: Context) -> bytes:
        self.budgets.append(call_of(context).budget.initial)
        return b"done"

    async def hang(self, context: Context) -> bytes:
        self.budgets.append(call_of(context).budget.initial)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return b""

    async def flood(self, context: Context) -> bytes:
        self.budgets.append(call_of(context).budget.initial)
        while True:
            await context.write(b"y" * 1000)

    @property
    def endings(self) -> list[tuple[str, str, str]]:
        return [
            (line["code"], line["reason"], line["ending"]) for line in self.logs if line["event"] == "request"
        ]


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    drain = Drain()
    with structlog.testing.capture_logs() as logs:
        told = Served(address="", drain=drain, logs=logs)
        server = Server(ServerSettings(), METHODS, Terms(drain=drain, authenticate=told.authenticate))
        servicer = Servicer({b"quick": told.quick, b"hang": told.hang, b"flood": told.flood})
        told.closed_in = servicer.closed_in
        server._server.add_generic_rpc_handlers([servicer.handlers()])
        async with server.serving({}):
            told.address = server.address
            yield told


@asynccontextmanager
async def client(served: Served, *, stream_window: int = 65_535) -> AsyncIterator[RawConnection]:
    """A raw client; when it is gone, everything that it caused has to go too."""
    before = len(asyncio.all_tasks())
    async with raw_connection(served.address, stream_window=stream_window) as connection:
        yield connection
    await eventually(lambda: served.drain.in_flight == 0)
    await eventually(lambda: len(asyncio.all_tasks()) <= before)


async def answers(
    connection: RawConnection, timeouts: Iterable[str | tuple[str, ...]]
) -> dict[Any, RawAnswer]:
    """One unary request each, all at once on one connection. A tuple is a header that comes several times."""
    streams = {}
    for wanted in timeouts:
        values = (wanted,) if isinstance(wanted, str) else wanted
        headers = [("grpc-timeout", value) for value in values]
        streams[wanted] = await connection.request(UNARY, *headers, message=b"quick")
    return {wanted: await connection.answer(stream) for wanted, stream in streams.items()}


def told(answer: RawAnswer) -> Told:
    return answer.status, answer.message, answer.reason


def is_documented(answer: RawAnswer) -> bool:
    """Whether docs/errors.md lists it among the answers that core gives without a reason."""
    return answer.reason == "" and any(
        core.code.value[0] == answer.status and fnmatch(answer.message, core.text) for core in CORE_ANSWERS
    )


async def test_a_malformed_timeout_is_refused_by_core_and_no_handler_runs(served: Served) -> None:
    malformed = ("abc", "-5m", "5", "1.5S", "5s", "+5S", "", "1S, 2S", ("1S", "abc"), ("abc", "1S"))

    async with client(served) as connection:
        found = await answers(connection, malformed)

    refusal = (INTERNAL, "Error parsing 'grpc-timeout' metadata", "")
    assert dict.fromkeys(malformed, refusal) == {wanted: told(answer) for wanted, answer in found.items()}
    assert all(map(is_documented, found.values()))
    assert [] == served.budgets
    assert [] == served.endings


async def test_a_timeout_beyond_all_reason_gets_the_cap_or_the_default(served: Served) -> None:
    async with client(served) as connection:
        found = await answers(connection, ("99999999H", "99999999S", "123456789m"))
        beyond = await answers(connection, ("1234567890m", "12345678901m"))

    assert [OK] * 5 == [answer.status for answer in (*found.values(), *beyond.values())]
    assert [CAP] * 3 == served.budgets[:3]
    # More digits than core can read: it goes on as if there were no deadline.
    assert [DEFAULT] * 2 == served.budgets[3:]


async def test_a_deadline_that_has_passed_at_arrival_is_refused_and_no_handler_runs(served: Served) -> None:
    async with client(served) as connection:
        found = await answers(connection, ("0m", "0S", "0n"))

    assert [(DEADLINE_EXCEEDED, "Deadline Exceeded", "")] * 3 == [told(answer) for answer in found.values()]
    assert all(map(is_documented, found.values()))
    assert [] == served.budgets


async def test_a_deadline_too_close_to_answer_in_is_refused_at_once_and_no_handler_runs(
    served: Served,
) -> None:
    async with client(served) as connection:
        found = await answers(connection, ("1n", "1u", "500u", "1m", "8m"))

    assert {DEADLINE_EXCEEDED} == {answer.status for answer in found.values()}
    # On a busy machine core's own timer may be faster than we are.
    assert {answer.reason for answer in found.values()} <= {"BUDGET_TOO_LOW", ""}
    assert [] == served.budgets


async def test_of_several_timeouts_the_last_one_counts(served: Served) -> None:
    async with client(served) as connection:
        await answers(connection, [("5S", "300m")])
        await answers(connection, [("300m", "5S")])

    assert [pytest.approx(0.25, abs=0.051), CAP] == served.budgets


async def test_spaces_around_a_timeout_do_not_matter(served: Served) -> None:
    async with client(served) as connection:
        found = await answers(connection, (" 300m", "   300m", "300m ", "300 m"))

    assert [OK] * 4 == [answer.status for answer in found.values()]
    # All at once: the last one has waited for the others.
    assert 4 == len([seconds for seconds in served.budgets if 0.1 < seconds <= 0.3])


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (("X-Tenant-Id", "acme"), "Illegal header key: X-Tenant-Id"),
        (("Grpc-Timeout", "1S"), "Illegal header key: Grpc-Timeout"),
        (("x-note-bin", "!!!"), "Error parsing 'x-note-bin' metadata: illegal base64 encoding"),
    ],
)
async def test_metadata_that_breaks_the_protocol_is_refused_by_core_and_no_handler_runs(
    served: Served, header: tuple[str, str], message: str
) -> None:
    async with client(served) as connection:
        refused = await connection.answer(await connection.request(UNARY, header, message=b"quick"))
        after = await connection.answer(await connection.request(UNARY, message=b"quick"))

    assert (INTERNAL, message, "") == told(refused)
    assert is_documented(refused)
    assert OK == after.status
    assert 1 == len(served.budgets)


async def test_text_that_is_not_ascii_is_refused_by_its_name(served: Served) -> None:
    async with client(served) as connection:
        refused = await connection.answer(
            await connection.request(UNARY, ("x-user-id", "ä"), message=b"quick")
        )

    assert (INVALID_ARGUMENT, "INVALID_ARGUMENT") == (refused.status, refused.reason)
    assert "x-user-id" in refused.message
    assert [] == served.budgets


@pytest.mark.parametrize("headers", [[("x-big", "a" * 30_000)], [(f"x-{n}", "a" * 3000) for n in range(10)]])
async def test_metadata_above_the_limit_is_refused_by_core_and_the_connection_goes_on(
    served: Served, headers: list[tuple[str, str]]
) -> None:
    async with client(served) as connection:
        refused = await connection.answer(await connection.request(UNARY, *headers, message=b"quick"))
        after = await connection.answer(await connection.request(UNARY, message=b"quick"))

    assert RESOURCE_EXHAUSTED == refused.status
    assert is_documented(refused)
    assert OK == after.status
    assert 1 == len(served.budgets)


@pytest.mark.parametrize("end", ["reset", "close", "abort"])
@pytest.mark.parametrize("path", [UNARY, STREAM])
async def test_a_client_that_leaves_ends_its_handler_at_once(served: Served, path: str, end: str) -> None:
    async with client(served) as connection:
        stream = await connection.request(path, ("grpc-timeout", "700m"), message=b"hang")
        await eventually(lambda: served.budgets)
        if path == STREAM:
            await connection.first_data(stream)
        left = time.monotonic()
        if end == "reset":
            await connection.reset(stream)
        elif end == "close":
            connection.close()
        else:
            connection.abort()
        await eventually(lambda: served.endings)
        took = time.monotonic() - left

    assert [("CANCELLED", "", "caller_cancelled")] == served.endings
    assert 1 == served.cancelled
    assert took < 0.5


@pytest.mark.parametrize("path", [UNARY, STREAM])
async def test_a_client_that_falls_silent_holds_its_handler_no_longer_than_its_budget(
    served: Served, path: str
) -> None:
    async with client(served) as connection:  # reads nothing any more, its socket stays open
        await connection.request(path, message=b"hang")
        await eventually(lambda: served.endings, within=DEFAULT + 1.0)

    assert [("DEADLINE_EXCEEDED", "BUDGET_EXHAUSTED", "budget_exhausted")] == served.endings
    assert 1 == served.cancelled


async def test_a_reader_that_takes_nothing_does_not_hold_a_stream_beyond_its_budget(served: Served) -> None:
    async with client(served, stream_window=0) as connection:
        stream = await connection.request(STREAM, ("grpc-timeout", "400m"), message=b"flood")
        answer = await connection.answer(stream)

    # Our status waits behind what the window keeps back, so core's own comes first.
    assert (DEADLINE_EXCEEDED, "Deadline Exceeded", "") == told(answer)
    assert b"" == answer.data
    assert [("DEADLINE_EXCEEDED", "BUDGET_EXHAUSTED", "budget_exhausted")] == served.endings


async def test_a_generator_whose_reader_takes_nothing_is_closed_in_its_own_task(served: Served) -> None:
    async with client(served, stream_window=0) as connection:
        stream = await connection.request(GENERATOR, message=b"quick")
        await eventually(lambda: served.endings)
        await connection.open_window(stream, 1_000_000)
        await connection.answer(stream)

    assert [] == served.budgets, "it should have been blocked at its first message"
    assert served.requests == served.closed_in


async def test_an_answer_that_nobody_takes_leaves_nothing_behind(served: Served) -> None:
    async with client(served, stream_window=0) as connection:
        answer = await connection.answer(
            await connection.request(UNARY, ("grpc-timeout", "200m"), message=b"quick")
        )

    assert (DEADLINE_EXCEEDED, b"") == (answer.status, answer.data)


@pytest.mark.parametrize("window", [0, 10, 10_000])
async def test_a_reader_that_takes_nothing_holds_nothing_of_ours_and_is_told_when_it_reads_again(
    served: Served, window: int
) -> None:
    async with client(served, stream_window=window) as connection:
        stream = await connection.request(STREAM, message=b"flood")  # no deadline: core ends nothing
        await eventually(lambda: served.endings)
        await eventually(lambda: served.drain.in_flight == 0)

        await connection.open_window(stream, 1_000_000)
        answer = await connection.answer(stream)

    assert [("DEADLINE_EXCEEDED", "BUDGET_EXHAUSTED", "budget_exhausted")] == served.endings
    assert (DEADLINE_EXCEEDED, "BUDGET_EXHAUSTED") == (answer.status, answer.reason)


async def test_a_burst_of_requests_that_are_reset_at_once_leaves_nothing_behind(served: Served) -> None:
    async with client(served) as connection:
        for _ in range(200):
            await connection.reset(await connection.request(STREAM, message=b"hang"))
        answer = await connection.answer(await connection.request(UNARY, message=b"quick"))

    assert OK == answer.status
    assert {"caller_cancelled"} >= {ending for _, _, ending in served.endings} - {"ok"}
