"""Rules about tasks: somebody owns each one, and a cancel gets through."""

import ast
from collections.abc import Iterator
from typing import Final

from tests.rules.source import Offence, Source

_STARTERS: Final = ("create_task", "ensure_future")


def dropped_task(source: Source) -> Iterator[Offence]:
    """Tasks that nobody keeps. A task group keeps its own."""
    for node in source.nodes():
        match node:
            case ast.Expr(value=ast.Call() as call):
                pass
            case ast.Assign(targets=[ast.Name(id="_")], value=ast.Call() as call):
                pass
            case _:
                continue
        name = ast.unparse(call.func)
        if name.rpartition(".")[2] in _STARTERS and "group" not in name.rpartition(".")[0]:
            yield source.offence(call, f"drops the task of {name}")


def swallowed_cancel(source: Source) -> Iterator[Offence]:
    """Handlers of CancelledError that raise nothing."""
    for node in source.nodes():
        if isinstance(node, ast.ExceptHandler) and _names(node.type) & {"CancelledError"}:
            yield from _unless_it_raises(source, node)
    for call, name in source.calls():
        caught = set[str]().union(*map(_names, call.args))
        if name.rpartition(".")[2] == "suppress" and caught & {"CancelledError", "BaseException"}:
            yield source.offence(call, f"suppresses {', '.join(sorted(caught))}")


def swallowed_everything(source: Source) -> Iterator[Offence]:
    """Handlers of BaseException, or of everything, that raise nothing."""
    for node in source.nodes():
        if isinstance(node, ast.ExceptHandler) and (
            node.type is None or _names(node.type) & {"BaseException", "BaseExceptionGroup"}
        ):
            yield from _unless_it_raises(source, node)


def _unless_it_raises(source: Source, handler: ast.ExceptHandler) -> Iterator[Offence]:
    if not any(isinstance(inner, ast.Raise) for inner in ast.walk(handler)):
        caught = ast.unparse(handler.type) if handler.type else "everything"
        yield source.offence(handler, f"catches {caught} and goes on")


def _names(node: ast.AST | None) -> set[str]:
    if isinstance(node, ast.Tuple):
        return set[str]().union(*map(_names, node.elts))
    return set() if node is None else {ast.unparse(node).rpartition(".")[2]}
