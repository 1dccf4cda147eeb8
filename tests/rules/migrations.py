"""Which migrations the release before them could not run on."""

import re
from collections.abc import Sequence
from typing import Final

CONTRACT: Final = re.compile(r"^-- migrate: contract: \S.*$", re.MULTILINE)
"""The mark of a file that takes something away, with the reason why that is safe by then."""

_QUOTED: Final = re.compile(r"--[^\n]*|\$(\w*)\$.*?\$\1\$|'(?:[^']|'')*'", re.DOTALL)
_ONE_LINE: Final = re.IGNORECASE
_MANY_LINES: Final = re.IGNORECASE | re.DOTALL
_NARROWING: Final = {
    "drops": re.compile(r"\bDROP\s+(?!POLICY\b)\w+", _ONE_LINE),
    "renames": re.compile(r"\bRENAME\b", _ONE_LINE),
    "changes a type": re.compile(r"\bALTER\s+(?:COLUMN\s+)?\w+\s+(?:SET\s+DATA\s+)?TYPE\b", _ONE_LINE),
    "requires a value": re.compile(r"\bSET\s+NOT\s+NULL\b", _ONE_LINE),
    "adds a column that must be given": re.compile(
        r"\bADD\s+COLUMN\b(?:(?!\bADD\b|;).)*\bNOT\s+NULL\b(?:(?!\bDEFAULT\b|\bADD\b|;).)*(?=\bADD\b|;|\Z)",
        _MANY_LINES,
    ),
    "adds a constraint": re.compile(
        r"\bADD\s+(?:CONSTRAINT|CHECK|UNIQUE|PRIMARY|FOREIGN|EXCLUDE)\b", _ONE_LINE
    ),
    "makes an old table's values unique": re.compile(r"\bCREATE\s+UNIQUE\s+INDEX\b", _ONE_LINE),
    "takes a right away": re.compile(r"\bREVOKE\b(?:(?!;).)*\bFROM\s+(?!PUBLIC\b)", _MANY_LINES),
    "deletes rows": re.compile(r"\b(?:DELETE\s+FROM|TRUNCATE)\b", _ONE_LINE),
}


def contracting(sql: str) -> Sequence[str]:
    """What a file does that the release before may not survive; bodies of functions are not read."""
    code = _QUOTED.sub("''", sql)
    return [what for what, pattern in _NARROWING.items() if pattern.search(code)]
