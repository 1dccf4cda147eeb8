"""One coroutine for every kind of handler: it decodes, runs, encodes, and closes what it opened.

Messages are decoded and encoded here, not by grpc: there a request that cannot be parsed, or an answer
that cannot be written, becomes UNKNOWN with the exception's text.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self, TypeAlias

import grpc

from servicekit.context import Codec, ServedContext

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What one request runs: `respond` returns the bytes of a single answer, None after a stream."""

    codec: Codec
    respond: Callable[[ServedContext], Awaitable[bytes | None]]


Serve = Callable[[Context, Behaviour], Awaitable[bytes | None]]

ENDED: Final = (asyncio.CancelledError, grpc.aio.AbortError)
"""How grpc learns that a request has been answered, or cannot be."""

_WRAPPERS: Final = {
    (False, False): grpc.unary_unary_rpc_method_handler,
    (False, True): grpc.unary_stream_rpc_method_handler,
    (True, False): grpc.stream_unary_rpc_method_handler,
    (True, True): grpc.stream_stream_rpc_method_handler,
}


def wrapped(handler: Handler, serve: Serve) -> Handler:
    """A handler of the same arity, over bytes, that runs every request through `serve`."""
    codec = Codec(handler)

    async def run(raw: Any, inner: Context) -> bytes | None:
        try:
            return await serve(inner, Behaviour(codec, partial(_respond, handler, codec, raw)))
        except ENDED as ended:
            del raw, inner
            raise _bare(ended) from None

    return _WRAPPERS[handler.request_streaming, handler.response_streaming](run)


def failing(error: Exception, serve: Serve) -> Handler:
    """A handler that fails with `error` before it reads anything, whatever its method's arity is."""

    async def respond(_context: ServedContext) -> bytes | None:
        raise error

    async def run(_raw: Any, inner: Context) -> bytes | None:
        try:
            return await serve(inner, Behaviour(Codec(), respond))
        except ENDED as ended:
            del _raw, inner
            raise _bare(ended) from None

    return grpc.stream_stream_rpc_method_handler(run)


def _bare(error: BaseException) -> BaseException:
    """Without its history, which was logged: grpc keeps the error with the call, and frames hold the call."""
    error.__context__ = None
    return error.with_traceback(None)


async def _respond(handler: Handler, codec: Codec, raw: Any, context: ServedContext) -> bytes | None:
    request = _Requests(context) if handler.request_streaming else codec.decode(raw)
    function = _function(handler)
    if handler.response_streaming:
        await _stream(function, request, context)
        return None
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"{function!r} must be a coroutine function")
    return codec.encode(await function(request, context))


def _function(handler: Handler) -> Callable[[Any, Any], Any]:
    functions = (handler.unary_unary, handler.unary_stream, handler.stream_unary, handler.stream_stream)
    return next(function for function in functions if function is not None)


async def _stream(function: Callable[[Any, Any], Any], request: Any, context: ServedContext) -> None:
    if inspect.iscoroutinefunction(function):
        await function(request, context)
    elif inspect.isasyncgenfunction(function):
        async with aclosing(function(request, context)) as responses:
            async for response in responses:
                await context.write(response)
    else:
        raise TypeError(f"{function!r} must be a coroutine function or an async generator function")


class _Requests(AsyncIterator[Any]):
    """The requests of a client stream. No generator: a handler may leave it half read."""

    def __init__(self, context: ServedContext) -> None:
        self._context = context

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        message = await self._context.read()
        if message is grpc.aio.EOF:
            raise StopAsyncIteration
        return message
