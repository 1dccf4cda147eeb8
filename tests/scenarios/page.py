"""Writes docs/scenarios.md: `python -m tests.scenarios.page`."""

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "scenarios.md"
SOURCE = Path(__file__).with_name("scenarios.toml")
HEAD = """\
# Scenarios

Faults that broke systems of this kind, as promises, and the tests that play each of them. A scenario without
tests is open. Tests marked `faults` run in `make test-faults`, the others in `make test`.

This page is made from `tests/scenarios/scenarios.toml` and from the tests' markers: `make scenarios`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A test that plays scenarios. `faults`: it runs with the slow ones."""

    path: str
    name: str
    letters: tuple[str, ...]
    faults: bool


@cache
def held() -> Sequence[Held]:
    """Every test with a `scenario` marker."""
    return [test for path in sorted((ROOT / "tests").rglob("test_*.py")) for test in _held_in(path)]


def _held_in(path: Path) -> Iterator[Held]:
    text = path.read_text()
    if "mark.scenario(" not in text:
        return
    tree = ast.parse(text)
    of_module = [
        mark
        for node in tree.body
        if isinstance(node, ast.Assign) and "pytestmark" in ast.unparse(node.targets[0])
        for mark in (node.value.elts if isinstance(node.value, ast.List) else [node.value])
    ]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            marks = [*of_module, *node.decorator_list]
            letters = tuple(letter for mark in marks for letter in _letters(mark))
            faults = any(ast.unparse(mark) == "pytest.mark.faults" for mark in marks)
            if letters:
                yield Held(path=str(path.relative_to(ROOT)), name=node.name, letters=letters, faults=faults)


def _letters(mark: ast.expr) -> Sequence[str]:
    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.scenario":
        return [str(ast.literal_eval(argument)) for argument in mark.args]
    return []


def written() -> str:
    """The page."""
    source = tomllib.loads(SOURCE.read_text())
    tests: dict[str, list[Held]] = defaultdict(list)
    for test in held():
        for letter in test.letters:
            tests[letter].append(test)
    sections = [
        _section(group, title, source["promises"], source["open"], tests)
        for group, title in source["groups"].items()
    ]
    return "\n".join([HEAD, *sections])


def _section(
    group: str,
    title: str,
    promises: Mapping[str, str],
    missing: Mapping[str, str],
    tests: Mapping[str, Sequence[Held]],
) -> str:
    rows = [
        f"| {letter} | {promise} | {_tests(tests.get(letter, ()), missing.get(letter, ''))} |"
        for letter, promise in promises.items()
        if letter.rstrip("0123456789") == group
    ]
    return "\n".join([f"## {title}", "", "| | promise | tests |", "|---|---|---|", *rows, ""])


def _tests(tests: Sequence[Held], missing: str) -> str:
    links = [
        f"[{test.name.removeprefix('test_').replace('_', ' ')}](../{test.path})"
        + (" (faults)" if test.faults else "")
        for test in tests
    ]
    rest = [f"**open**: {missing}"] if missing and links else []
    return "<br>".join([*links, *rest]) or "**open**"


if __name__ == "__main__":
    PAGE.write_text(written())
