"""`make licences`: every locked package stands under a licence that licences.toml allows, or excuses.

The licences are what the metadata of the installed packages say (pip-licenses reads them).
"""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent
OWN: Final = "hourglass"


def main() -> int:
    """Tell what is wrong on stderr. The exit code: 0, or 1 when something is."""
    rules = tomllib.loads((FOLDER / "licences.toml").read_text())
    found = installed()
    wrong = list(problems(found, rules, shipped=locked("runtime.lock")))
    for problem in wrong:
        print(problem, file=sys.stderr)
    if not wrong:
        print(f"{len(found)} packages stand under licences that are allowed")
    return 1 if wrong else 0


def installed() -> Mapping[str, str]:
    """The licence of each installed package, by its normalised name."""
    program = Path(sys.executable).parent / "pip-licenses"
    told = subprocess.run([program, "--from=mixed", "--format=json"], capture_output=True, check=True)
    found = {normalised(one["Name"]): str(one["License"]) for one in json.loads(told.stdout)}
    found.pop(OWN, None)
    return found


def locked(lock: str) -> frozenset[str]:
    """The packages that a lock names."""
    text = (FOLDER / lock).read_text()
    return frozenset(map(normalised, re.findall(r"^([A-Za-z0-9._-]+)==", text, flags=re.MULTILINE)))


def problems(found: Mapping[str, str], rules: Mapping[str, Any], *, shipped: frozenset[str]) -> Iterator[str]:
    """What the rules do not allow, and exceptions that are not needed, or not harmless."""
    exceptions: Mapping[str, Sequence[str]] = rules["exceptions"]
    for name, licence in sorted(found.items()):
        if not allows(rules["allowed"], licence) and exceptions.get(name, [""])[0] != licence:
            yield f"{name}: {licence} is not allowed by licences.toml"
    for name, (licence, _) in sorted(exceptions.items()):
        if found.get(name) != licence or allows(rules["allowed"], licence):
            yield f"{name}: the exception for {licence} is not needed any more"
        if name in shipped:
            yield f"{name}: is shipped, so no exception can be made"


def allows(allowed: Mapping[str, Sequence[str]], licence: str) -> bool:
    """Whether one side of each OR is allowed, and all sides of everything else."""
    known = {*allowed, *(spelling for spellings in allowed.values() for spelling in spellings)}
    parts = re.split(r"; | AND ", licence)
    return all(part in known or not known.isdisjoint(part.strip("()").split(" OR ")) for part in parts)


def normalised(name: str) -> str:
    """As PEP 503 has it."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
