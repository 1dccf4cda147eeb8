"""The descriptors that reflection answers from."""

from typing import Any

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool


class Symbols:
    """A descriptor pool that finds methods by their full names too.

    Python's own does not, so that `grpcurl describe PACKAGE.SERVICE.METHOD` would fail.
    """

    def __init__(self, pool: DescriptorPool) -> None:
        self._pool = pool

    def FindFileContainingSymbol(self, symbol: str) -> FileDescriptor:  # noqa: N802 - the pool's name
        """The file that defines a symbol. KeyError when nothing does."""
        try:
            return self._pool.FindFileContainingSymbol(symbol)
        except KeyError:
            service, _, method = symbol.rpartition(".")
            return self._pool.FindServiceByName(service).methods_by_name[method].containing_service.file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)
