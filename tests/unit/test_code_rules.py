"""What the code never does. Exceptions are listed here with their reason, and go when they are not needed."""

from collections.abc import Mapping

import pytest

from tests.rules.access import composed_sql, driver, environment, http_client, stub_call
from tests.rules.source import Rule, Source, product_sources
from tests.rules.tasks import dropped_task, swallowed_cancel, swallowed_everything
from tests.rules.time_limits import bare_limit, timer, wait_for

SOURCES = product_sources()


def breaks(rule: Rule, allowed: Mapping[str, str]) -> list[str]:
    """Who breaks a rule without a reason, and whose reason is not needed any more.

    A key of `allowed` is a function (`path::name`), a module or, with a slash at its end, a folder.
    """
    found = [offence for source in SOURCES for offence in rule(source)]
    excused = {offence: [key for key in allowed if covers(key, offence.where)] for offence in found}
    needed = {key for keys in excused.values() for key in keys}
    unexcused = [str(offence) for offence, keys in excused.items() if not keys]
    return unexcused + [f"{key}: is excused and breaks nothing" for key in allowed if key not in needed]


def covers(key: str, where: str) -> bool:
    return where.startswith(key) if key.endswith("/") else where == key or where.startswith(f"{key}::")


def test_nobody_but_the_adapters_speaks_to_the_database() -> None:
    allowed = {
        "budget/": "the adapter",
        "jobs_store/listener.py": "listens on a session of its own, outside the pool",
        "migrations/runner.py": "runs before any service",
        "launcher/database.py": "lets the roles in, before any service",
    }
    assert [] == breaks(driver, allowed)


def test_nobody_but_the_providers_and_the_reader_of_keys_makes_http_requests() -> None:
    allowed = {
        "servicekit/identity/key_sources.py": "the keys of a token issuer, through budget.http",
        "worker/providers/": "every call goes through budget.http",
        "model_servers/simulated/protocol.py": "names of status codes",
        "launcher/local_model.py": "waits for the model server to answer",
    }
    assert [] == breaks(http_client, allowed)


def test_nobody_calls_a_stub_past_the_adapter() -> None:
    assert [] == breaks(stub_call, {})


def test_nobody_uses_wait_for() -> None:
    assert [] == breaks(wait_for, {})


def test_timers_stand_where_budgets_are_kept_and_nowhere_else() -> None:
    allowed = {
        "budget/": "where budgets become timers",
        "servicekit/drain.py": "the request's own scope, and the drain",
        "servicekit/request.py": "the wait for a status to leave, half a reserve",
        "servicekit/lifecycle.py": "pauses of loops, which a stop ends early",
        "jobs_store/pacing.py": "pauses of loops, which a stop ends early",
        "jobs_store/listener.py": "connects outside the pool, under a budget",
        "jobs_store/subscriptions.py": "a wait for a signal, under a budget",
        "jobs_service/service/sharing.py": "a wait for the next event, under a budget",
        "worker/event_log.py": "a wait for the next event, under a budget",
        "worker/interrupt.py": "a timer without a time: it ends a call when a cancel is asked for",
        "servicekit/context.py": "a slow reader's write",
        "worker/rpc.py": "a slow reader's write",
        "worker/providers/": "around the client of a provider, under a budget",
        "launcher/processes.py": "the end of a process",
    }
    assert [] == breaks(timer, allowed)


def test_no_limit_of_time_is_a_bare_number() -> None:
    allowed = {
        "launcher/postgres_binaries.py": "asks a program for its version before anything runs",
        "protos/generate.py": "a developer's tool",
    }
    assert [] == breaks(bare_limit, allowed)


def test_every_task_has_an_owner() -> None:
    assert [] == breaks(dropped_task, {})


def test_a_cancel_is_never_swallowed() -> None:
    allowed = {
        "budget/outlast.py::outlast": "sees its work through; the cancel stays counted in the task",
        "budget/transaction.py::Transaction._answer_to": "learns the commit's outcome, then spend raises it",
        "launcher/up.py": "the end of the process",
        "launcher/demo/__main__.py": "the end of the process",
    }
    assert [] == breaks(swallowed_cancel, allowed)


def test_whoever_catches_everything_raises_again() -> None:
    assert [] == breaks(swallowed_everything, {})


def test_the_environment_is_read_by_settings_alone() -> None:
    allowed = {
        "servicekit/settings.py": "the one reader of settings",
        "launcher/__init__.py": "quiets core before it is imported",
        "launcher/migrate.py": "a command line",
        "launcher/processes.py": "hands it on to the processes that it starts",
        "migrations/__main__.py": "a command line",
    }
    assert [] == breaks(environment, allowed)


def test_no_statement_is_composed_at_run_time() -> None:
    allowed = {
        "budget/transaction.py::opening": "SET takes no parameters: whole numbers and checked names only",
    }
    assert [] == breaks(composed_sql, allowed)


PLANTED: list[tuple[Rule, str]] = [
    (driver, "import asyncpg"),
    (driver, "from asyncpg import connect"),
    (driver, "from asyncpg.pool import Pool"),
    (http_client, "import httpx2"),
    (http_client, "from urllib.request import urlopen"),
    (http_client, "from http import client"),
    (stub_call, "async def f(self): return await self._stub.GetPrice(request, timeout=budget.remaining())"),
    (stub_call, "PricingServiceStub(channel).GetPrice(request)"),
    (stub_call, "channel.unary_unary('/a/B')(request)"),
    (wait_for, "asyncio.wait_for(work, limit)"),
    (wait_for, "from asyncio import wait_for"),
    (wait_for, "wait = asyncio.wait_for"),
    (timer, "asyncio.timeout(budget.remaining())"),
    (timer, "timeout_at(when)"),
    (timer, "await in_time(work(), seconds=limit)"),
    (timer, "await waits.in_time(work(), seconds=limit)"),
    (bare_limit, "fetch(sql, timeout=5)"),
    (bare_limit, "fetch(sql, deadline=60 * 1.5)"),
    (bare_limit, "asyncio.timeout(0.3)"),
    (bare_limit, "await waits.in_time(work(), seconds=0.3)"),
    (bare_limit, "await asyncio.sleep(1)"),
    (bare_limit, "time.sleep(0.1)"),
    (bare_limit, "def fetch(sql: str, timeout: float = 5.0) -> None: ..."),
    (bare_limit, "async def fetch(sql: str, *, timeout: float = 5) -> None: ..."),
    (dropped_task, "asyncio.create_task(work())"),
    (dropped_task, "_ = asyncio.ensure_future(work())"),
    (dropped_task, "loop.create_task(work())"),
    (swallowed_cancel, "try: await work()\nexcept asyncio.CancelledError: pass"),
    (swallowed_cancel, "try: await work()\nexcept (OSError, CancelledError): return_default()"),
    (swallowed_cancel, "with suppress(asyncio.CancelledError): await task"),
    (swallowed_everything, "try: work()\nexcept BaseException: log()"),
    (swallowed_everything, "try: work()\nexcept: log()"),
    (environment, "os.environ['HOME']"),
    (environment, "os.getenv('HOME')"),
    (environment, "from os import environ"),
    (composed_sql, "f'SELECT * FROM {table}'"),
    (composed_sql, "'DELETE FROM jobs WHERE id = %s' % id"),
    (composed_sql, "'UPDATE jobs SET ' + columns"),
    (composed_sql, "'SET LOCAL {} = 1'.format(name)"),
]

INNOCENT: list[tuple[Rule, str]] = [
    (driver, "import asyncpgish"),
    (http_client, "from http import HTTPStatus"),
    (stub_call, "call(self._stub.GetPrice, request, budget=budget, policy=policy)"),
    (stub_call, "PricingServiceStub(channel)"),
    (stub_call, "stubs.PricingServiceStub(channel)"),
    (stub_call, "channel.unary_unary('/a/B')"),
    (wait_for, "condition.wait_for(ready)"),
    (timer, "session.timeout"),
    (bare_limit, "fetch(sql, timeout=child.remaining())"),
    (bare_limit, "asyncio.timeout(max(budget.remaining(), 1e-6))"),
    (bare_limit, "asyncio.sleep(POLL_INTERVAL)"),
    (bare_limit, "asyncio.sleep(0)"),
    (bare_limit, "Limits(commit=2.0)"),
    (dropped_task, "task = asyncio.create_task(work())"),
    (dropped_task, "group.create_task(work())"),
    (swallowed_cancel, "try: await work()\nexcept asyncio.CancelledError:\n    clean_up()\n    raise"),
    (swallowed_everything, "try: work()\nexcept BaseException as error:\n    raise Wrapped from error"),
    (swallowed_everything, "try: work()\nexcept Exception: log()"),
    (environment, "settings.environ"),
    (composed_sql, "f'no job {id}'"),
    (composed_sql, "'SELECT 1'"),
    (composed_sql, "f'SELECTED {count}'"),
]


@pytest.mark.parametrize(("rule", "text"), PLANTED)
def test_a_planted_offender_is_caught(rule: Rule, text: str) -> None:
    assert 1 == len(list(rule(planted(text))))


@pytest.mark.parametrize(("rule", "text"), INNOCENT)
def test_the_innocent_pass(rule: Rule, text: str) -> None:
    assert [] == list(rule(planted(text)))


def test_an_offence_is_named_by_its_function() -> None:
    (offence,) = timer(planted("class A:\n    def b(self):\n        asyncio.timeout(self.rest)"))

    assert "planted.py::A.b" == offence.where
    assert covers("planted.py", offence.where)
    assert covers("planted.py::A.b", offence.where)
    assert not covers("planted.py::A", "planted.py::Ab.c")


def planted(text: str) -> Source:
    return Source.of("planted.py", text)
