"""Channels that follow their files: what changes there is used by the next connection.

grpc's Python takes a client's certificate once, when a channel is made (grpc#41779). So a change makes a new
channel for the calls that begin after it; what is under way stays on the old one, which core closes with its
last call.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Self, TypeVar

import grpc
import grpc.aio

from transport.files import Contents
from transport.held import HeldFiles

Options = Sequence[tuple[str, Any]]
AnyChannel = TypeVar("AnyChannel")


def channel_credentials(contents: Contents) -> grpc.ChannelCredentials:
    """A client's credentials, as the files are now. Without authorities grpc's own are trusted."""
    key, chain = contents.pair or (None, None)
    return grpc.ssl_channel_credentials(contents.authorities, key, chain)


class Following(Generic[AnyChannel]):
    """The channel for the next call."""

    def __init__(self, held: HeldFiles, make: Callable[[grpc.ChannelCredentials], AnyChannel]) -> None:
        self._held = held
        self._make = make
        self._contents = held.current()
        self.latest = make(channel_credentials(self._contents))

    def current(self) -> AnyChannel:
        """Made anew when the files have changed."""
        contents = self._held.current()
        if contents is not self._contents:
            self._contents = contents
            self.latest = self._make(channel_credentials(contents))
        return self.latest


class _Method:
    """One method of a stub, over whatever channel is current when it is called."""

    def __init__(self, following: Following[Any], kind: str, method: str, terms: dict[str, Any]) -> None:
        self._following = following
        self._kind = kind
        self._method = method
        self._terms = terms
        self._channel: Any = None
        self._bound: Any = None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._of_now()(*arguments, **named)

    def with_call(self, *arguments: Any, **named: Any) -> Any:
        """As of a method of a blocking channel."""
        return self._of_now().with_call(*arguments, **named)

    def future(self, *arguments: Any, **named: Any) -> Any:
        """As of a method of a blocking channel."""
        return self._of_now().future(*arguments, **named)

    def _of_now(self) -> Any:
        channel = self._following.current()
        if channel is not self._channel:
            self._channel, self._bound = channel, getattr(channel, self._kind)(self._method, **self._terms)
        return self._bound


class FollowingChannel(grpc.Channel):
    """A blocking channel. Threads may share it."""

    def __init__(self, target: str, held: HeldFiles, options: Options) -> None:
        self._following: Following[grpc.Channel] = Following(
            held, lambda credentials: grpc.secure_channel(target, credentials, options=options)
        )

    def subscribe(self, callback: Any, try_to_connect: bool = False) -> None:
        self._following.current().subscribe(callback, try_to_connect)

    def unsubscribe(self, callback: Any) -> None:
        self._following.latest.unsubscribe(callback)

    def unary_unary(self, method: str, *_: Any, **terms: Any) -> Any:
        return _Method(self._following, "unary_unary", method, terms)

    def unary_stream(self, method: str, *_: Any, **terms: Any) -> Any:
        return _Method(self._following, "unary_stream", method, terms)

    def stream_unary(self, method: str, *_: Any, **terms: Any) -> Any:
        return _Method(self._following, "stream_unary", method, terms)

    def stream_stream(self, method: str, *_: Any, **terms: Any) -> Any:
        return _Method(self._following, "stream_stream", method, terms)

    def close(self) -> None:
        self._following.latest.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FollowingAioChannel(grpc.aio.Channel):
    """A channel for asyncio."""

    def __init__(self, target: str, held: HeldFiles, options: Options) -> None:
        self._following: Following[grpc.aio.Channel] = Following(
            held, lambda credentials: grpc.aio.secure_channel(target, credentials, options=options)
        )

    async def close(self, grace: float | None = None) -> None:
        await self._following.latest.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._following.current().get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._following.current().wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._following.current().channel_ready()

    def unary_unary(self, method: str, *_: Any, **terms: Any) -> Any:
        return _Method(self._following, "unary_unary", method, terms)

    def unary_stream(self, method: str, *_: Any, **terms: Any) -> Any:
        return _Method(self._following, "unary_stream", method, terms)

    def stream_unary(self, method: str, *_: Any, **terms: Any) -> Any:
        return _Method(self._following, "stream_unary", method, terms)

    def stream_stream(self, method: str, *_: Any, **terms: Any) -> Any:
        return _Method(self._following, "stream_stream", method, terms)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
