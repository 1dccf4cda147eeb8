"""`python -m tests.rules.squawk`: what squawk finds in the migrations is what was reviewed, and nothing else.

Released migrations never change, so what it finds in them stands in squawk.toml with the reason why it does
no harm. A new one is mended, or says `-- squawk-ignore RULE` beside its reason.
"""

import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[2]
REVIEWED: Final = Path(__file__).parent / "squawk.toml"
OLDEST_SERVER: Final = "15.0"
Findings = Mapping[str, frozenset[str]]


def main() -> int:
    """Tell the difference. The exit code: 0, or 1 when there is one."""
    rules = tomllib.loads(REVIEWED.read_text())
    told = difference(found(sorted((PROJECT / "migrations" / "sql").glob("*.sql")), rules["never"]), rules)
    for line in told:
        print(line, file=sys.stderr)
    return 1 if told else 0


def found(files: Sequence[Path], excluded: Mapping[str, str]) -> Findings:
    """The files that break each rule."""
    squawk = Path(sys.executable).parent / "squawk"
    options = ["--assume-in-transaction", f"--pg-version={OLDEST_SERVER}", "--reporter=json"]
    names = [f"--exclude={rule}" for rule in excluded]
    done = subprocess.run([squawk, *options, *names, *files], capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(done.stderr)
    broken: dict[str, set[str]] = {}
    for one in json.loads(done.stdout):
        broken.setdefault(one["rule_name"], set()).add(Path(one["file"]).stem)
    return {rule: frozenset(names) for rule, names in broken.items()}


def difference(findings: Findings, rules: Mapping[str, Mapping[str, Sequence[str]]]) -> Sequence[str]:
    """What is found and was not reviewed, and what was reviewed and is not found."""
    reviewed = {rule: frozenset(names[1:]) for rule, names in rules["reviewed"].items()}
    told = []
    for rule in sorted(findings.keys() | reviewed.keys()):
        here, known = findings.get(rule, frozenset()), reviewed.get(rule, frozenset())
        told += [f"{name}: {rule} (squawk)" for name in sorted(here - known)]
        told += [f"{name}: {rule} is not found any more: take it out" for name in sorted(known - here)]
    return told


if __name__ == "__main__":
    sys.exit(main())
