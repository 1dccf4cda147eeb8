"""What the processes wrote: no traceback, no error and no warning of Python's own, but those named here."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

ALLOWED: Final[Mapping[str, str]] = {
    "lane parked: mend the account, then resume the lane": "the alert that a 401 has to raise",
    "Failed to restore the pool connection floor; retrying": "the driver's own, in an outage",
}
"""Events of level error, or with a traceback, that a fault may cause, each with its reason."""
_CORE_INFORMS: Final = re.compile(r"I\d{4} \d\d:\d\d:\d\d\.\d+ ")
"""How a line of gRPC's own core begins that only informs: it knows nothing of our logs."""
LEVELS: Final = frozenset({"error", "critical"})


def complaints(folder: Path) -> Iterator[str]:
    """Every line that should not be there, by process."""
    for path in sorted(folder.glob("*.log*")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if what := _complaint(line):
                yield f"{path.name}: {what}"


def _complaint(line: str) -> str:
    try:
        entry: Any = json.loads(line)
    except ValueError:
        return "" if line.startswith("listening on") or _CORE_INFORMS.match(line) else line
    if not isinstance(entry, dict):
        return line
    bad = entry.get("level") in LEVELS or "exception" in entry or entry.get("logger") == "py.warnings"
    if not bad or entry.get("event") in ALLOWED:
        return ""
    last = str(entry.get("exception", "")).strip().splitlines()[-1:]
    return f"{entry.get('level')} {entry.get('event')} {' '.join(last)}"
