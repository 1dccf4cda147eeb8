"""The project's own source as syntax trees, for rules that no linter knows."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = (
    "budget",
    "jobs_service",
    "jobs_store",
    "jobsctl",
    "edge",
    "launcher",
    "migrations",
    "model_servers",
    "presentation",
    "pricing_service",
    "protos",
    "servicekit",
    "wire",
    "worker",
)
"""What the rules hold for. Generated code, tests and benchmarks (which measure what is forbidden) are not."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Offence:
    """A place that breaks a rule. `where` is `path::function`, or the path for a module's top level."""

    where: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.where} (line {self.line}): {self.what}"


@dataclass(frozen=True, slots=True)
class Source:
    """One module."""

    path: str
    tree: ast.Module
    owners: dict[ast.AST, str] = field(default_factory=dict)

    @classmethod
    def of(cls, path: str, text: str) -> Self:
        source = cls(path, ast.parse(text, filename=path))
        source._note_owners(source.tree, path, "")
        return source

    def nodes(self) -> Iterator[ast.AST]:
        """Everything in it, in no particular order."""
        return ast.walk(self.tree)

    def calls(self) -> Iterator[tuple[ast.Call, str]]:
        """Every call with the text of what is called, such as `asyncio.timeout`."""
        for node in self.nodes():
            if isinstance(node, ast.Call):
                yield node, ast.unparse(node.func)

    def imports(self) -> Iterator[tuple[ast.AST, str]]:
        """Every import with the full name of what is imported: a module, or a name in one."""
        for node in self.nodes():
            if isinstance(node, ast.Import):
                yield from ((node, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)

    def offence(self, node: ast.AST, what: str) -> Offence:
        return Offence(self.owners.get(node, self.path), getattr(node, "lineno", 0), what)

    def _note_owners(self, node: ast.AST, owner: str, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            self.owners[child] = owner
            if isinstance(child, Definition):
                name = f"{prefix}{child.name}"
                self._note_owners(child, f"{self.path}::{name}", f"{name}.")
            else:
                self._note_owners(child, owner, prefix)


Rule = Callable[[Source], Iterator[Offence]]


def product_sources() -> list[Source]:
    """Every module that the rules hold for."""
    files = (file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py")))
    return [Source.of(str(file.relative_to(ROOT)), file.read_text()) for file in files]


def is_call_of(call: ast.Call, name: str, *modules: str) -> bool:
    """Whether it calls `name`, bare or through one of the modules."""
    return ast.unparse(call.func) in {name, *(f"{module}.{name}" for module in modules)}
