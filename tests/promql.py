"""Which series and labels the files under deploy/ name, and which instruments the code makes."""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).parent.parent
DEPLOY = PROJECT / "deploy"
PACKAGES = ("budget", "servicekit", "jobs_store", "jobs_service", "pricing_service", "worker")
OF_PROMETHEUS = frozenset({"job", "instance", "le"})
"""Labels that every series has, or that a histogram has."""
_SERIES = re.compile(
    r"\b((?:hourglass|rpc|db|process|python)_\w+|\w+:\w+:\w+|up)\b(?!\s*\()\s*(?:\{([^}]*)\})?"
)
_GROUPED = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Series and labels of one expression. `at`: where it stands."""

    at: str
    series: Mapping[str, frozenset[str]]
    """With the labels that it is selected by."""
    grouped: frozenset[str]


def named_by(at: str, expression: str) -> Named:
    """What an expression of PromQL names."""
    bare = _QUOTED.sub('""', expression)
    grouped = {label.strip() for found in _GROUPED.findall(bare) for label in found.split(",")} - {""}
    series: dict[str, frozenset[str]] = {}
    for name, matchers in _SERIES.findall(_GROUPED.sub("", bare)):
        series[name] = series.get(name, frozenset()) | frozenset(_MATCHER.findall(matchers))
    return Named(at=at, series=series, grouped=frozenset(grouped))


def rules(file: str) -> Sequence[Mapping[str, Any]]:
    """The rules of one of our files."""
    groups = yaml.safe_load((DEPLOY / "prometheus" / file).read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def recorded() -> Mapping[str, Named]:
    """The series that rules record, with what they are made of."""
    return {rule["record"]: named_by(rule["record"], rule["expr"]) for rule in rules("recording_rules.yml")}


def alerts() -> Mapping[str, Mapping[str, Any]]:
    """The alerts by name."""
    return {rule["alert"]: rule for rule in rules("alert_rules.yml")}


def dashboards() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The dashboards by file."""
    for file in sorted((DEPLOY / "grafana" / "dashboards").glob("*.json")):
        yield file.name, json.loads(file.read_text())


def everything_named() -> Iterator[Named]:
    """All expressions of dashboards, recording rules and alerts."""
    yield from recorded().values()
    for name, alert in alerts().items():
        yield named_by(name, alert["expr"])
    for file, dashboard in dashboards():
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):
                yield named_by(f"{file}: {panel['title']}", target["expr"])
        for variable in dashboard["templating"]["list"]:
            query = variable["query"]["query"].removeprefix("label_values(").removesuffix(")")
            yield named_by(f"{file}: ${variable['name']}", query.rpartition(",")[0])


def instruments() -> frozenset[str]:
    """The names of all instruments that the code makes."""
    files = [file for package in PACKAGES for file in (PROJECT / package).rglob("*.py")]
    return frozenset(name for file in files for name in _made_in(file))


def _made_in(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = node.args[0].value
            named = isinstance(name, str) and re.fullmatch(r"(hourglass|rpc|db|gen_ai)\.[a-z_.]+", name)
            if named and _makes(node.func):
                yield str(name)


def _makes(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name.startswith(("create_counter", "create_histogram", "create_observable", "create_up_down")) or (
        name == "count"
    )
