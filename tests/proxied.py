"""A test's database behind a proxy that misbehaves when told to."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.chaos_proxy import ChaosProxy


def proxy_to(dsn: str) -> AbstractAsyncContextManager[ChaosProxy]:
    """A proxy to the server that a DSN names by its socket's folder."""
    query = parse_qs(urlsplit(dsn).query)
    port = query.get("port", ["5432"])[0]
    return ChaosProxy.to_unix(Path(query["host"][0]) / f".s.PGSQL.{port}")


def through(proxy: ChaosProxy, dsn: str) -> str:
    """The same database as the same role, by way of the proxy."""
    parts = urlsplit(dsn)
    return f"postgresql://{parts.username}@127.0.0.1:{proxy.port}{parts.path}?sslmode=disable"
