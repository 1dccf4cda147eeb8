"""docs/config.md, written from the settings classes: `python -m launcher.settings_page` prints it.

What a setting means stands in its class's docstring, as `name: text.` or `name, other: text.`
"""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from jobs_service.settings import JobsSettings
from launcher.settings import DemoSettings, UpSettings
from pricing_service.settings import PricingSettings
from servicekit.settings import Settings
from servicekit.telemetry import TelemetrySettings
from worker.settings import WorkerSettings

PROCESSES: Final[Sequence[tuple[str, str, type[Settings]]]] = (
    ("JobService", "`python -m jobs_service`", JobsSettings),
    ("PricingService", "`python -m pricing_service`", PricingSettings),
    ("Worker", "`python -m worker`", WorkerSettings),
    ("Telemetry", "every process, beside the SDK's own `OTEL_*` variables", TelemetrySettings),
    ("Development", "`make up`", UpSettings),
    ("Demo", "`make demo`", DemoSettings),
)

_KINDS: Final[Mapping[type, str]] = {
    bool: "`true` or `false`",
    int: "whole number",
    float: "number",
    Decimal: "decimal number",
    str: "text",
    SecretStr: "secret text",
    Path: "path",
    frozenset: "names with commas between",
}
_BOUNDS: Final[Mapping[str, str]] = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}


def as_markdown() -> str:
    """The text of docs/config.md. ValueError when a setting has no description."""
    return "\n".join((*_HEAD, *(line for process in PROCESSES for line in _section(*process)), ""))


def meanings(settings: type[Settings]) -> Mapping[str, str]:
    """What each field means, as the docstrings of the class and of its bases say."""
    found: dict[str, str] = {}
    for owner in settings.__mro__:
        if issubclass(owner, Settings) and owner is not Settings:
            found = {**dict(_entries(inspect.cleandoc(owner.__doc__ or ""), settings)), **found}
    return found


def _entries(text: str, settings: type[Settings]) -> Iterator[tuple[str, str]]:
    name = "|".join(map(re.escape, settings.model_fields))
    begin = re.compile(rf"(?<![\w.])(?P<names>(?:{name})(?:, (?:{name}))*): ")
    flat = re.sub(r"\s+", " ", text)
    starts = list(begin.finditer(flat))
    for number, start in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(flat)
        for each in start["names"].split(", "):
            yield each, flat[start.end() : end].strip()


def _section(title: str, where: str, settings: type[Settings]) -> Iterator[str]:
    meaning = meanings(settings)
    missing = settings.model_fields.keys() - meaning.keys()
    if missing:
        raise ValueError(f"{settings.__name__}: no description of {', '.join(sorted(missing))}")
    yield from (f"## {title}", "", f"Read by {where}.", "")
    yield from ("| Variable | Value | Default | Meaning |", "|---|---|---|---|")
    for name, field in settings.model_fields.items():
        value, default = _value(field), _default(field)
        yield f"| `{settings.variable_of(name)}` | {value} | {default} | {_cell(meaning[name])} |"
    yield ""


def _value(field: FieldInfo) -> str:
    bounds = [
        f"{word} {getattr(bound, kind):.10g}"
        for bound in field.metadata
        for kind, word in _BOUNDS.items()
        if isinstance(getattr(bound, kind, None), int | float)
    ]
    return _cell(", ".join([_kind(field.annotation), *bounds]))


def _kind(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(arguments[0])
    if origin is Literal:
        return ", ".join(f"`{choice}`" if choice else "empty" for choice in arguments)
    if origin in {Union, UnionType}:
        (only,) = (each for each in arguments if each is not NoneType)
        return _kind(only)
    return _KINDS.get(origin or annotation, "JSON")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    if field.default_factory is not None or _kind(field.annotation) == "JSON":
        return "as in the code"
    if field.default is None:
        return "unset"
    if field.default == "":
        return "empty"
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    if isinstance(field.default, frozenset):  # in an order of its own in every run
        return f"`{','.join(sorted(field.default))}`"
    if isinstance(field.default, Path):
        return "the one of the package"
    return f"`{field.default}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


_HEAD: Final = (
    "# Configuration",
    "",
    "<!-- Written by `make config`; edit the docstrings of the settings classes instead. -->",
    "",
    "A process reads its environment once, at the start. Every variable may also be given as its name and",
    "`_FILE`: then the value is read from the file that is named. What is wrong stops the start, with all",
    "problems at once; what holds is logged, without secrets. Times are seconds, sizes bytes.",
    "",
)


if __name__ == "__main__":
    print(as_markdown(), end="")
