"""One mutant: a small fault that the tests must notice. As data, in the TOML files beside this module."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
_FIELDS: Final = frozenset({"promise", "file", "old", "new", "tests"})


class MalformedMutant(Exception):
    """A mutant's entry is wrong, or its patch does not apply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A patch, and what must notice it.

    promise: the sentence that the patched code breaks.
    file: the patched file, from the root of the checkout. old stands in it exactly once; new takes its place.
    tests: pytest's names of the tests that must fail.
    """

    name: str
    promise: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def patched(self, text: str) -> str:
        """The file's text with the fault in it. MalformedMutant when the patch does not apply."""
        found = text.count(self.old)
        if found != 1:
            raise MalformedMutant(
                f"{self.name}: its old text stands {found} times in {self.file}, wanted once"
            )
        return text.replace(self.old, self.new)


def load(folder: Path = FOLDER) -> dict[str, Mutant]:
    """All mutants by name. MalformedMutant for an entry that is wrong."""
    mutants: dict[str, Mutant] = {}
    for file in sorted(folder.glob("*.toml")):
        for name, entry in tomllib.loads(file.read_text()).items():
            if name in mutants:
                raise MalformedMutant(f"{name}: stands in two files")
            mutants[name] = _mutant(name, entry)
    return mutants


def _mutant(name: str, entry: dict[str, object]) -> Mutant:
    if entry.keys() != _FIELDS:
        raise MalformedMutant(f"{name}: wanted {sorted(_FIELDS)}, has {sorted(entry)}")
    tests = entry["tests"]
    if not isinstance(tests, list) or not tests:
        raise MalformedMutant(f"{name}: tests: wanted one or more names")
    texts = {field: str(entry[field]) for field in _FIELDS - {"tests"}}
    return Mutant(name=name, tests=tuple(map(str, tests)), **texts)
