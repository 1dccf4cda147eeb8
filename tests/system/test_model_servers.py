"""The model servers' processes: what they say when they cannot serve, and that they end in good order."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from urllib.parse import urlsplit

import pytest

from model_servers import local
from tests.model_server import model_server, requests_seen


def test_a_taken_port_is_an_error_that_says_so() -> None:
    with model_server("model_servers.simulated") as url:
        port = str(urlsplit(url).port)
        second = subprocess.run(
            [sys.executable, "-m", "model_servers.simulated", "--port", port],
            capture_output=True,
            text=True,
            timeout=15,
            check=False,
        )
    assert (second.returncode, second.stdout) == (1, "")
    assert f"127.0.0.1:{port}: Address already in use" in second.stderr


def test_a_stop_ends_answers_that_are_still_open() -> None:
    with model_server("model_servers.simulated") as url:
        messages = [{"role": "user", "content": "x"}]
        asked = {"model": "simulated-stall-mid", "stream": True, "messages": messages}
        body = json.dumps(asked).encode()
        answer = urllib.request.urlopen(f"{url}/v1/chat/completions", data=body, timeout=10)
        assert answer.readline().startswith(b"data: ")
        assert requests_seen(url)["open"] == 1
    answer.close()


def test_a_missing_model_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local, "weights", lambda: None)
    with pytest.raises(SystemExit):
        local.start("127.0.0.1", 0)
    assert "make setup" in capsys.readouterr().err
