"""Makes a price catalog from the data of the ``genai-prices`` package.

    python -m pricing_service.import_catalog [--date YYYY-MM-DD]

The output depends on the package's version, the date and nothing else. Only models whose text answers are
priced by the token are taken. A price that changes with the hour is taken at its dearest hour, so that what
is reserved for a job covers it whenever it runs.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ClauseEquals, ClauseOr, MatchLogic

from jobs_store.rate_card import RateCard, RateTier
from pricing_service.genai_rates import dearest_card
from pricing_service.price_catalog import CATALOG_DIRECTORY, version_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

FIRST_PARTY: Final = (
    "openai", "anthropic", "google", "mistral", "deepseek", "x-ai", "cohere", "moonshotai", "perplexity",
)  # fmt: skip
"""Providers whose models go by their bare name; on a clash the earlier one has it."""
HOSTS: Final = ("groq", "together", "cerebras", "fireworks")
"""Providers that serve others' models: always ``provider/model``."""

SIMULATED_MODELS: Final = (
    "simulated", "simulated-fast", "simulated-slow", "simulated-stall-first", "simulated-stall-mid",
    "simulated-drip", "simulated-400", "simulated-401", "simulated-429", "simulated-500",
    "simulated-reset-before", "simulated-reset-mid", "simulated-error-mid", "simulated-cut-mid",
    "simulated-no-usage",
)  # fmt: skip

Line = dict[str, object]


def catalog_lines(on: date) -> list[Line]:
    """Every line of the catalog for that day, sorted by model."""
    lines: dict[str, Line] = {}
    for line in (*_own_lines(), *_imported_lines(on)):
        lines.setdefault(str(line["model"]), line)
    return [lines[model] for model in sorted(lines)]


def write_catalog(on: date, directory: Path = CATALOG_DIRECTORY) -> Path:
    """Writes the catalog of that day, one model a line, in place of another of the same day."""
    lines = catalog_lines(on)
    path = directory / f"{version_of(on.isoformat(), lines)}.json"
    for other in directory.glob(f"{on.isoformat()}-*.json"):
        other.unlink()
    body = ",\n".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in lines)
    source = f"genai-prices {version('genai-prices')}"
    path.write_text(
        f'{{"date":"{on.isoformat()}","source":"{source}","models":[\n{body}\n]}}\n', encoding="utf-8"
    )
    return path


def _own_lines() -> Iterator[Line]:
    """The local model and the simulated ones: their rates are small, but money is seen to move."""
    yield _line("smollm2-135m", "local", _flat_card(input_rate="1", cached="0.5", output="2"))
    for model in SIMULATED_MODELS:
        card = _flat_card(input_rate="1", cached="0.5", output="2")
        yield _line(model, "simulated", card, takes_parameters=True)


def _imported_lines(on: date) -> Iterator[Line]:
    providers = {provider.id: provider for provider in get_snapshot().providers}
    taken: set[str] = set()
    for provider_id in (*FIRST_PARTY, *HOSTS):
        for model in providers[provider_id].models:
            card = dearest_card(model, on)
            if card is None:
                continue
            bare = provider_id in FIRST_PARTY and model.id not in taken
            taken.add(model.id)
            prefix = "" if bare else f"{provider_id}/"
            aliases = sorted(f"{prefix}{alias}" for alias in _equal_names(model.match) - {model.id})
            yield _line(f"{prefix}{model.id}", provider_id, card, aliases=aliases)


def _equal_names(match: MatchLogic) -> set[str]:
    """The names that mean exactly this model; a pattern would price names that nobody has seen."""
    if isinstance(match, ClauseEquals):
        return {match.equals}
    if isinstance(match, ClauseOr):
        return {name for clause in match.or_ for name in _equal_names(clause)}
    return set()


def _flat_card(*, input_rate: str, cached: str, output: str) -> RateCard:
    tier = RateTier(
        above_input_tokens=0, input=Decimal(input_rate), cached_input=Decimal(cached), output=Decimal(output)
    )
    return RateCard(model="", price_version="", tiers=(tier,))


def _line(
    model: str, provider: str, card: RateCard, *, aliases: Iterable[str] = (), takes_parameters: bool = False
) -> Line:
    stored: Mapping[str, object] = card.to_json()
    line: Line = {"model": model, "provider": provider}
    if names := list(aliases):
        line["aliases"] = names
    if takes_parameters:
        line["takes_parameters"] = True
    return line | {"per_request": stored["per_request"], "tiers": stored["tiers"]}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Write the price catalog of a day from genai-prices.")
    parser.add_argument(
        "--date",
        type=date.fromisoformat,
        default=datetime.now(UTC).date(),
        help="YYYY-MM-DD, today if absent",
    )
    print(write_catalog(parser.parse_args().date))  # noqa: T201 - the answer of a command


if __name__ == "__main__":
    main()
