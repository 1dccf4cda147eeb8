"""Rules about what may be reached from where: the database, other services, the environment."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from tests.rules.source import Offence, Source

HTTP_CLIENTS: Final = (
    "aiohttp",
    "http.client",
    "httpx",
    "httpx2",
    "openai",
    "requests",
    "urllib.request",
    "urllib3",
)
_METHOD_OF_A_STUB: Final = re.compile(r".*[Ss]tub.*\.[A-Z][A-Za-z]+(?<!Stub)", re.DOTALL)
_METHOD_OF_A_CHANNEL: Final = re.compile(r".*channel\.(unary|stream)_(unary|stream)\(.*\)", re.DOTALL)
_SQL: Final = re.compile(
    r"\s*(SELECT|INSERT|UPDATE|DELETE|MERGE|WITH|CREATE|ALTER|DROP|TRUNCATE|GRANT|BEGIN|SET|LISTEN|NOTIFY|COPY)\b"
)


def driver(source: Source) -> Iterator[Offence]:
    """Imports of the database's driver."""
    for node, name in source.imports():
        if _within(name, "asyncpg"):
            yield source.offence(node, f"imports {name}")


def http_client(source: Source) -> Iterator[Offence]:
    """Imports of anything that makes HTTP requests."""
    for node, name in source.imports():
        if any(_within(name, client) for client in HTTP_CLIENTS):
            yield source.offence(node, f"imports {name}")


def stub_call(source: Source) -> Iterator[Offence]:
    """Calls of a stub's method. Handing the method to the adapter, uncalled, is what is wanted."""
    for call, name in source.calls():
        if _METHOD_OF_A_STUB.fullmatch(name) or _METHOD_OF_A_CHANNEL.fullmatch(name):
            yield source.offence(call, f"calls {name}")


def environment(source: Source) -> Iterator[Offence]:
    """Reads of the environment."""
    for node in source.nodes():
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {
            "os.environ",
            "os.getenv",
            "os.environb",
        }:
            yield source.offence(node, f"reads {ast.unparse(node)}")
    for node, name in source.imports():
        if name in {"os.environ", "os.getenv"}:
            yield source.offence(node, f"imports {name}")


def composed_sql(source: Source) -> Iterator[Offence]:
    """SQL that is put together from parts at run time."""
    for node in source.nodes():
        text = _composed(node)
        if text is not None and _SQL.match(text):
            yield source.offence(node, f"composes {text.strip()[:40]!r}")


def _composed(node: ast.AST) -> str | None:
    """The beginning of a text that is composed here."""
    match node:
        case ast.JoinedStr(values=[*parts]) if any(isinstance(part, ast.FormattedValue) for part in parts):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Add() | ast.Mod()):
            return text
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
            return text
        case _:
            return None


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")
