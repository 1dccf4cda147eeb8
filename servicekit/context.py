"""The servicer context that handlers get: grpc's own, plus the Call, the codec and our trailers."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Never, TypeVar

import grpc
from google.rpc.status_pb2 import Status

from budget.timer import Waits
from servicekit.call import Call
from servicekit.endings import CallerGone, Verdict, aborted
from servicekit.errors import FieldViolation, InvalidRequest, status_of_code

Message = TypeVar("Message")

Trailers = tuple[tuple[str, str | bytes], ...]
STATUS_DETAILS = "grpc-status-details-bin"


class Codec:
    """Bytes to messages and back, as the method's handler says. None stands for bytes as they are."""

    def __init__(self, handler: "grpc.RpcMethodHandler[Any, Any] | None" = None) -> None:
        self._decode = handler.request_deserializer if handler else None
        self._encode = handler.response_serializer if handler else None

    def decode(self, raw: bytes) -> Any:
        """The message in `raw`. InvalidRequest when it cannot be parsed."""
        if self._decode is None:
            return raw
        try:
            return self._decode(raw)
        except Exception as error:
            raise InvalidRequest(FieldViolation("request", "cannot be parsed")) from error

    def encode(self, message: Any) -> bytes:
        """The bytes of a message; bytes are a message that is encoded already."""
        if isinstance(message, bytes):
            return message
        return bytes(message if self._encode is None else self._encode(message))


Abort = Callable[[Verdict, Trailers], Awaitable[Never]]
"""Ends the request with a verdict: accounts for it and sends its status with these trailers."""


class ServedContext(grpc.aio.ServicerContext[Any, Any]):
    """Delegates to grpc's context.

    `abort` keeps the trailers set before (grpc's own replaces them) and always sends an ErrorInfo.
    `read` and `write` raise CallerGone when the stream broke: core reports that as a failed batch.
    """

    def __init__(
        self, inner: grpc.aio.ServicerContext[Any, Any], *, call: Call, codec: Codec, abort: Abort
    ) -> None:
        self._inner = inner
        self._codec = codec
        self._abort = abort
        self._call = call
        self._headers_sent = False
        self.trailers: Trailers = ()

    @property
    def call(self) -> Call:
        """What is served: method, budget, principal."""
        return self._call

    async def read(self) -> Any:
        try:
            raw = await self._inner.read()
        except grpc.aio.InternalError as error:
            raise CallerGone from error
        return raw if raw is grpc.aio.EOF else self._codec.decode(raw)

    async def write(self, message: Any) -> None:
        raw = self._codec.encode(message)
        try:
            if not self._headers_sent:
                # By themselves: beside a message that the reader does not take they would stay pending, and
                # core refuses the status that ends such a call.
                await self.send_initial_metadata(())
            await self._inner.write(raw)
        except grpc.aio.InternalError as error:
            raise CallerGone from error

    def writer(
        self,
        encoded: Callable[[Message], bytes],
        waits: Waits,
        *,
        limit: float,
        late: Callable[[], Exception],
    ) -> Callable[[Message], Awaitable[None]]:
        """As `write`, for streams of very many messages: each may take `limit` seconds, or `late` is raised.

        One frame between a handler and grpc, and one timer for all. encoded: the bytes of a message.
        """
        inner = self._inner

        async def write(message: Message) -> None:
            raw = encoded(message)
            try:
                with waits.time_limit(seconds=limit):
                    await (inner.write(raw) if self._headers_sent else self.write(raw))
            except grpc.aio.InternalError as error:
                raise CallerGone from error
            if waits.late:
                raise late()

        return write

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Iterable[Any] = ()
    ) -> Never:
        trailers: Trailers = (*self.trailers, *trailing_metadata)
        rich = [value for key, value in trailers if key == STATUS_DETAILS and isinstance(value, bytes)]
        status = Status.FromString(rich[-1]) if rich else status_of_code(code, details)
        await self._abort(aborted(code, status), trailers)
        raise AssertionError("abort returned")

    async def abort_with_status(self, status: grpc.Status) -> Never:
        await self.abort(status.code, status.details or "", tuple(status.trailing_metadata or ()))
        raise AssertionError("abort returned")

    async def send_initial_metadata(self, initial_metadata: Any) -> None:
        self._headers_sent = True
        await self._inner.send_initial_metadata(initial_metadata)

    def set_trailing_metadata(self, trailing_metadata: Iterable[Any]) -> None:
        self.trailers = tuple(trailing_metadata)

    def trailing_metadata(self) -> Any:
        return self.trailers

    def invocation_metadata(self) -> grpc.aio.Metadata | None:
        return self._inner.invocation_metadata()

    def set_code(self, code: grpc.StatusCode) -> None:
        self._inner.set_code(code)

    def set_details(self, details: str) -> None:
        self._inner.set_details(details)

    def code(self) -> grpc.StatusCode:
        return self._inner.code()

    def details(self) -> str:
        return self._inner.details()

    def set_compression(self, compression: grpc.Compression) -> None:
        self._inner.set_compression(compression)

    def disable_next_message_compression(self) -> None:
        self._inner.disable_next_message_compression()

    def peer(self) -> str:
        return self._inner.peer()

    def peer_identities(self) -> Iterable[bytes] | None:
        return self._inner.peer_identities()

    def peer_identity_key(self) -> str | None:
        return self._inner.peer_identity_key()

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        return self._inner.auth_context()

    def add_done_callback(self, callback: Any) -> None:
        self._inner.add_done_callback(callback)

    def time_remaining(self) -> float:
        return self._inner.time_remaining()

    def cancelled(self) -> bool:
        return self._inner.cancelled()

    def done(self) -> bool:
        return self._inner.done()


def served(context: grpc.aio.ServicerContext[Any, Any]) -> ServedContext:
    """The handler's context as what it is. TypeError when the interceptor is not in place."""
    if not isinstance(context, ServedContext):
        raise TypeError("the handler runs without the request interceptor")
    return context
