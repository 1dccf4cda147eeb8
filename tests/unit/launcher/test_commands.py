"""What the launcher tells its processes, and what it tells people to type."""

import json
import shlex
import socket

import pytest

from launcher import components
from launcher.errors import AddressTaken
from launcher.grpcurl import grpcurl_lines
from launcher.ports import require_free
from launcher.ready_lines import grpc_address, http_url
from worker.providers.routes import ProviderRoute, Routes

MODELS = {"local": "http://127.0.0.1:1", "simulated": "http://127.0.0.1:2"}


def test_a_service_is_told_where_to_find_what_it_needs_and_the_callers_settings_win() -> None:
    command = components.jobs_service(
        "jobs",
        {"LISTEN": "127.0.0.1:50051", "REAP_INTERVAL": "1"},
        database="request-dsn",
        reaper_database="worker-dsn",
        readonly_database="readonly-dsn",
        pricing="127.0.0.1:7",
        workers=["127.0.0.1:8", "127.0.0.1:9"],
    )
    assert {
        "HOURGLASS_JOBS_LISTEN": "127.0.0.1:50051",
        "HOURGLASS_JOBS_LOG_FORMAT": "json",
        "HOURGLASS_JOBS_DATABASE_URL": "request-dsn",
        "HOURGLASS_JOBS_WORKER_DATABASE_URL": "worker-dsn",
        "HOURGLASS_JOBS_READONLY_DATABASE_URL": "readonly-dsn",
        "HOURGLASS_JOBS_PRICING_TARGET": "127.0.0.1:7",
        "HOURGLASS_JOBS_WORKERS_TARGET": "ipv4:127.0.0.1:8,127.0.0.1:9",
        "HOURGLASS_JOBS_REAP_INTERVAL": "1",
    } == command.environment


@pytest.mark.parametrize(
    ("model", "route"),
    [
        ("smollm2-135m", "local"),
        ("simulated", "simulated"),
        ("simulated-slow:tokens=3", "simulated"),
        ("simulated:tps=3", "simulated"),
    ],
)
def test_every_model_of_the_stack_has_a_route(model: str, route: str) -> None:
    found = Routes(routes=[ProviderRoute(**r) for r in components.routes(MODELS)]).find(model)
    assert (found.name, found.base_url) == (route, f"{MODELS[route]}/v1")


def test_ready_lines_are_recognised_and_nothing_else_is() -> None:
    assert grpc_address('{"event": "serving", "address": "127.0.0.1:5"}') == "127.0.0.1:5"
    assert http_url("listening on http://127.0.0.1:5\n") == "http://127.0.0.1:5"
    for line in ("", "serving", "[]", '{"event": "serving"}', '{"event": "draining", "address": "a:1"}'):
        assert grpc_address(line) is None
        assert http_url(line) is None


def test_every_grpcurl_line_is_one_line_that_a_shell_takes_with_valid_json() -> None:
    lines = grpcurl_lines("grpcurl", "127.0.0.1:50051", key="first-1")
    for line in lines:
        assert "\n" not in line.command
        words = shlex.split(line.command.removeprefix("JOB=$(").rpartition(" | ")[0] or line.command)
        if "-d" in words:
            json.loads(words[words.index("-d") + 1])


def test_a_taken_port_is_named_with_the_variable_that_moves_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(AddressTaken) as failure:
            require_free({"HOURGLASS_JOBS_LISTEN": address, "HOURGLASS_WORKER_LISTEN": "127.0.0.1:0"})
    assert f"HOURGLASS_JOBS_LISTEN: cannot listen on {address}: Address already in use" in str(failure.value)
    assert ["HOURGLASS_JOBS_LISTEN"] == list(failure.value.problems)
