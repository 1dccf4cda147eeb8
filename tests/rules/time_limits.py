"""Rules about time: it comes from a budget, a policy or a setting, never from a number on the spot."""

import ast
from collections.abc import Iterator
from typing import Final

from tests.rules.source import Definition, Offence, Source, is_call_of

_LIMITS: Final = frozenset({"timeout", "deadline"})
_TIMED: Final = ("timeout", "timeout_at", "sleep")


def wait_for(source: Source) -> Iterator[Offence]:
    """Uses of `asyncio.wait_for`, which can hide a cancel (cpython#86296)."""
    for node in source.nodes():
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "asyncio.wait_for":
            yield source.offence(node, "uses asyncio.wait_for")
    for node, name in source.imports():
        if name == "asyncio.wait_for":
            yield source.offence(node, "imports asyncio.wait_for")


def timer(source: Source) -> Iterator[Offence]:
    """Timers beside those of the budget."""
    for call, name in source.calls():
        of_asyncio = any(is_call_of(call, timed, "asyncio") for timed in ("timeout", "timeout_at"))
        if of_asyncio or _is_in_time(name):
            yield source.offence(call, f"sets a timer with {name}")


def bare_limit(source: Source) -> Iterator[Offence]:
    """Numbers that stand where a limit of time is given."""
    for call, name in source.calls():
        given = [one.value for one in call.keywords if one.arg in _LIMITS]
        if any(is_call_of(call, timed, "asyncio", "time") for timed in _TIMED):
            given += call.args[:1]
        if _is_in_time(name):
            given += [one.value for one in call.keywords if one.arg == "seconds"]
        for value in filter(_is_a_number, given):
            yield source.offence(call, f"gives {name} the number {ast.unparse(value)}")
    for node in source.nodes():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _bare_defaults(source, node)


def _is_in_time(name: str) -> bool:
    return name.rpartition(".")[2] in {"in_time", "time_limit"}


def _bare_defaults(source: Source, function: Definition) -> Iterator[Offence]:
    assert not isinstance(function, ast.ClassDef)
    arguments = function.args
    placed = [*arguments.posonlyargs, *arguments.args]
    defaults = [
        *zip(placed[len(placed) - len(arguments.defaults) :], arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    for argument, value in defaults:
        if argument.arg in _LIMITS and value is not None and _is_a_number(value):
            yield source.offence(function, f"{function.name} defaults {argument.arg} to {ast.unparse(value)}")


def _is_a_number(node: ast.AST) -> bool:
    """A literal, or reckoned from literals alone. 0 is none: it gives way, or asks without waiting."""
    match node:
        case ast.Constant(value=bool()):
            return False
        case ast.Constant(value=int() | float() as number):
            return number != 0
        case ast.UnaryOp(operand=operand):
            return _is_a_number(operand)
        case ast.BinOp(left=left, right=right):
            return _is_a_number(left) and _is_a_number(right)
        case _:
            return False
