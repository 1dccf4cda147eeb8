"""What the local model's own server says of itself: which model it is, and how much it has generated."""

import asyncio
import json
import urllib.request
from dataclasses import dataclass
from typing import Final

from budget.core import Budget

_GENERATED: Final = "llamacpp:tokens_predicted_total"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """generated: output tokens since the server started. parameters: of the network that is loaded."""

    name: str
    parameters: int
    generated: int


async def model_facts(url: str, *, budget: Budget) -> ModelFacts:
    """Ask the server at `url`. OSError when it does not answer within the budget."""
    models = json.loads(await _get(f"{url}/v1/models", budget=budget))
    metrics = await _get(f"{url}/metrics", budget=budget)
    (model,) = models["data"]
    return ModelFacts(
        name=model["id"], parameters=model["meta"]["n_params"], generated=counter(metrics, _GENERATED)
    )


def counter(metrics: str, name: str) -> int:
    """One counter of a page in Prometheus' text format. ValueError when it is not there."""
    for line in metrics.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(float(value))
    raise ValueError(f"the server's metrics have no {name}")


async def _get(url: str, *, budget: Budget) -> str:
    return await asyncio.to_thread(_read, url, budget.spendable() or 1e-3)


def _read(url: str, timeout: float) -> str:
    with urllib.request.urlopen(url, timeout=timeout) as response:  # noqa: S310 - our own server on loopback
        text: bytes = response.read()
    return text.decode()
