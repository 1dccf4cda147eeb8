"""What is wrong with a request, collected, so that a caller learns all of it at once."""

from collections.abc import Collection
from typing import Self

from servicekit.errors import FieldViolation, InvalidRequest


class Faults:
    """Violations below one path of the request, such as `spec.messages[2]`."""

    def __init__(self, path: str = "", found: list[FieldViolation] | None = None) -> None:
        self._path = path
        self._found: list[FieldViolation] = [] if found is None else found

    def within(self, name: str) -> Self:
        """The same collection, one level deeper: a field, or `[2]` for an element."""
        return type(self)(self._join(name), self._found)

    def add(self, field: str, description: str) -> None:
        """One more violation; an empty field means the path itself."""
        self._found.append(FieldViolation(self._join(field), description))

    def raise_if_any(self) -> None:
        """InvalidRequest with everything that was added."""
        if self._found:
            raise InvalidRequest(*self._found)

    def check_text(self, field: str, text: str, *, longest: int, shortest: int = 1) -> None:
        """A text of so many characters, without U+0000, which Postgres cannot store."""
        if shortest == 1 and not text:
            self.add(field, "is required")
        elif not shortest <= len(text) <= longest:
            self.add(field, f"must have {shortest} to {longest} characters, has {len(text)}")
        self.check_storable(field, text)

    def check_storable(self, field: str, text: str) -> None:
        """No U+0000."""
        if "\0" in text:
            self.add(field, "must not contain U+0000")

    def check_range(
        self, field: str, value: float, lowest: float, highest: float, *, open_below: bool = False
    ) -> None:
        """A number within bounds; `open_below`: above the lowest. NaN lies in no range."""
        inside = (value > lowest if open_below else value >= lowest) and value <= highest
        if not inside:
            start = f"above {lowest:g}" if open_below else f"{lowest:.10g}"
            self.add(field, f"must be {start} to {highest:.10g}, is {value:.10g}")

    def check_count(self, field: str, elements: Collection[object], highest: int) -> None:
        """At most so many elements."""
        if len(elements) > highest:
            self.add(field, f"must have at most {highest} elements, has {len(elements)}")

    def _join(self, name: str) -> str:
        separator = "." if self._path and name and not name.startswith("[") else ""
        return f"{self._path}{separator}{name}"
