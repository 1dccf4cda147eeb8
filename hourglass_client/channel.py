"""How the client is connected."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from budget.grpc_client import CHANNEL_OPTIONS
from hourglass.budget.v1.ledger_pb2 import BudgetLedger
from transport.bearer import Token, is_local, token_of
from transport.channels import FollowingAioChannel, FollowingChannel
from transport.files import TlsFiles, WrongFiles
from transport.held import HeldFiles, Silent

_log = logging.getLogger(__name__)

Options = Sequence[tuple[str, Any]]

OnLedger = Callable[[str, BudgetLedger], None]
"""Takes the method of each answer, good or bad, and how the server spent its time."""

LARGEST_ANSWER: Final = 8 * 1024 * 1024
DEFAULT_OPTIONS: Final[Options] = (
    *CHANNEL_OPTIONS,
    ("grpc.max_receive_message_length", LARGEST_ANSWER),
)
"""Keepalive that the services allow, quick reconnects, no retries beneath ours, no proxy from outside."""


def blocking_channel(
    target: str, tls: TlsFiles | None, credentials: grpc.ChannelCredentials | None, options: Options
) -> grpc.Channel:
    """A channel in the clear, or over TLS by files or by credentials."""
    _check_one(tls, credentials)
    if tls is not None:
        return FollowingChannel(target, HeldFiles(tls, watcher=_Warning()), options)
    if credentials is not None:
        return grpc.secure_channel(target, credentials, options=options)
    return grpc.insecure_channel(target, options=options)


def aio_channel(
    target: str, tls: TlsFiles | None, credentials: grpc.ChannelCredentials | None, options: Options
) -> grpc.aio.Channel:
    """The same for asyncio."""
    _check_one(tls, credentials)
    if tls is not None:
        return FollowingAioChannel(target, HeldFiles(tls, watcher=_Warning()), options)
    if credentials is not None:
        return grpc.aio.secure_channel(target, credentials, options=options)
    return grpc.aio.insecure_channel(target, options=options)


def checked_token(
    given: str | Path | Token | None, target: str, *, encrypted: bool, plaintext_token: bool
) -> Token | None:
    """The token of a client's calls. Raises WrongToken, and ValueError where it would leave this machine in
    the clear: whoever reads it on its way can do what its owner can."""
    if given is not None and not (encrypted or plaintext_token or is_local(target)):
        raise ValueError(f"a token to {target} takes TLS, or plaintext_token=True")
    return token_of(given)


def _check_one(tls: TlsFiles | None, credentials: grpc.ChannelCredentials | None) -> None:
    if tls is not None and credentials is not None:
        raise ValueError("tls and credentials: one of them is wanted")


class _Warning(Silent):
    """Tells of files that went wrong in the way of a library."""

    def refused(self, error: WrongFiles) -> None:
        _log.warning("changed certificate files are wrong, those before stay in use: %s", error)


def ignored(_method: str, _ledger: BudgetLedger) -> None:
    """For callers who do not ask where the time went."""
