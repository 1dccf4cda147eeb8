"""Passwords out of texts: connection strings appear in settings, in errors and so in logs."""

import re
from typing import Final

HIDDEN: Final = "***"
_USERINFO: Final = re.compile(r"(?P<before>[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/]*(?=@)", re.IGNORECASE)
_KEYWORD: Final = re.compile(
    r"(?P<before>\b(?:password|passwd|secret|api_?key)\s*=\s*)('[^']*'|[^\s&'\"]+)", re.IGNORECASE
)


# PostgreSQL and asyncpg show values of rows and of arguments in what they say.
_ROWS: Final = re.compile(
    r"(?P<before>\bDETAIL:\s+|invalid input for query argument \$\d+: )"
    r".*?(?=\n(?:HINT|CONTEXT|During|The above|\n)|\Z)",
    re.DOTALL,
)


def redact_rows(traceback: str) -> str:
    """A traceback without the values that a database's error repeats."""
    return _ROWS.sub(rf"\g<before>{HIDDEN}", traceback)


def redact(text: str) -> str:
    """The text with the passwords of URLs and of `password=` pairs replaced by `***`."""
    if "=" not in text and "://" not in text:  # most texts of a log; the patterns cost 4 us each
        return text
    return _KEYWORD.sub(rf"\g<before>{HIDDEN}", _USERINFO.sub(rf"\g<before>{HIDDEN}", text))
