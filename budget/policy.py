"""What a request may spend on one method of one dependency."""

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_DEPENDENCY: Final = re.compile(r"[a-z0-9_-]{1,40}")
_METHOD: Final = re.compile(r"[A-Za-z0-9_.-]{1,60}")


class Enforcement(StrEnum):
    """Whether a policy cuts, or only counts what it would have cut (Finagle's DeadlineFilter: dark mode)."""

    ENFORCE = "enforce"
    OBSERVE = "observe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Limits of one call; `limit` and `floor` are seconds. ValueError names the field that makes no sense.

    limit: the most that one try may take; `math.inf` for streams that only the budget ends.
    floor: the least time in which a try is useful; below it an optional call is skipped, others refused.
    attempts: tries at most, the first one included.
    """

    dependency: str
    method: str
    limit: float
    floor: float = 0.0
    attempts: int = 1
    optional: bool = False
    enforcement: Enforcement = Enforcement.ENFORCE

    def __post_init__(self) -> None:
        _require(
            "dependency", self.dependency, _DEPENDENCY.pattern, bool(_DEPENDENCY.fullmatch(self.dependency))
        )
        _require("method", self.method, _METHOD.pattern, bool(_METHOD.fullmatch(self.method)))
        _require("limit", self.limit, "seconds above 0", self.limit > 0)
        _require("floor", self.floor, "seconds, 0 or more", 0 <= self.floor < math.inf)
        _require("floor", self.floor, f"at most the limit of {self.limit} s", self.floor <= self.limit)
        _require("attempts", self.attempts, "1 or more", self.attempts >= 1)

    @property
    def observed(self) -> bool:
        """True when this policy only counts."""
        return self.enforcement is Enforcement.OBSERVE


def _require(field: str, value: object, wanted: str, holds: bool) -> None:
    if not holds:
        raise ValueError(f"{field}: {value!r}, wanted {wanted}")
