"""The price catalog: versioned JSON files under ``catalog/``, read once at start and never changed.

A file is named after its price version, which names its content: the date of the prices and a digest of the
lines. Older files stay, so that a usage can still be rated at the version that it was priced with.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jobs_store.rate_card import RateCard

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

CATALOG_DIRECTORY: Final = Path(__file__).parent / "catalog"


class MalformedCatalog(Exception):
    """A catalog file cannot be read, or does not contain what its name says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogLine:
    """One model of one provider.

    ``rates`` is what the provider charges. ``takes_parameters``: a name may go on after a colon
    (``simulated-fast:tps=200``) and stays this model.
    """

    model: str
    provider: str
    rates: RateCard
    aliases: tuple[str, ...] = ()
    takes_parameters: bool = False

    @property
    def lane(self) -> str:
        """The unit that is limited and parked: one provider and model."""
        qualified = self.model.startswith(f"{self.provider}/")
        return self.model if qualified else f"{self.provider}/{self.model}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """All lines of one price version, sorted by model."""

    price_version: str
    date: str
    source: str
    lines: tuple[CatalogLine, ...]

    def by_name(self) -> dict[str, CatalogLine]:
        """Every name that finds a line: models first, then lanes, then aliases that are still free."""
        names = {line.model: line for line in self.lines}
        for line in self.lines:
            names.setdefault(line.lane, line)
        for line in self.lines:
            for alias in line.aliases:
                names.setdefault(alias, line)
        return names


def version_of(date: str, lines: Iterable[Mapping[str, object]]) -> str:
    """``date`` (ISO) plus a digest of the lines, so that equal versions have equal prices."""
    canonical = json.dumps(list(lines), sort_keys=True, separators=(",", ":")).encode()
    return f"{date}-{hashlib.sha256(canonical).hexdigest()[:12]}"


def load_catalogs(directory: Path = CATALOG_DIRECTORY) -> tuple[Catalog, ...]:
    """Every catalog in ``directory``, oldest first. Raises ``MalformedCatalog``."""
    catalogs = sorted(
        (read_catalog(path) for path in directory.glob("*.json")), key=lambda c: (c.date, c.price_version)
    )
    if not catalogs:
        raise MalformedCatalog(f"{directory} holds no price catalog; make one with `make catalog`")
    return tuple(catalogs)


def select_catalog(catalogs: Sequence[Catalog], price_version: str | None) -> Catalog:
    """The catalog of that version, or the newest. Raises MalformedCatalog when the choice is not clear."""
    if price_version is not None:
        chosen = [catalog for catalog in catalogs if catalog.price_version == price_version]
    else:
        newest = max(catalog.date for catalog in catalogs)
        chosen = [catalog for catalog in catalogs if catalog.date == newest]
    if len(chosen) != 1:
        held = ", ".join(catalog.price_version for catalog in catalogs)
        raise MalformedCatalog(
            f"name one price catalog of {held}; {price_version or 'the newest'} is not one"
        )
    return chosen[0]


def read_catalog(path: Path) -> Catalog:
    """The catalog in the file. Raises ``MalformedCatalog`` that names the file and what is wrong with it."""
    try:
        stored = json.loads(path.read_bytes())
        version = version_of(stored["date"], stored["models"])
        if version != path.stem:
            raise MalformedCatalog(f"{path.name} was changed: its content is {version}")
        lines = tuple(
            sorted((_line(model, version) for model in stored["models"]), key=lambda line: line.model)
        )
        return Catalog(price_version=version, date=stored["date"], source=stored["source"], lines=lines)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MalformedCatalog(f"{path.name}: {type(error).__name__}: {error}") from error


def _line(stored: Mapping[str, object], price_version: str) -> CatalogLine:
    aliases = stored.get("aliases", [])
    if not isinstance(aliases, list):
        raise TypeError("aliases must be a list")
    return CatalogLine(
        model=str(stored["model"]),
        provider=str(stored["provider"]),
        aliases=tuple(str(alias) for alias in aliases),
        takes_parameters=stored.get("takes_parameters") is True,
        rates=RateCard.from_json({**stored, "price_version": price_version}),
    )
