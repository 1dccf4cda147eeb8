"""What was typed, as parts of messages. Raises Failure that names the flag."""

import json
from datetime import datetime
from decimal import Decimal
from typing import TypeVar

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from google.type.money_pb2 import Money

from jobsctl.exits import ExitCode, Failure
from servicekit.wire_money import UnrepresentableAmount, money_of
from servicekit.wire_time import timestamp_of

AnyMessage = TypeVar("AnyMessage", bound=Message)


def usage(message: str) -> Failure:
    """The failure of a command that was not typed as it has to be."""
    return Failure("USAGE", message, code=ExitCode.USAGE)


def parsed(text: str, message: AnyMessage, flag: str) -> AnyMessage:
    """The message, filled from proto JSON."""
    try:
        value = json.loads(text)
        if not isinstance(value, dict):
            raise usage(f"{flag}: no JSON object")
        return ParseDict(value, message)
    except (ValueError, ParseError) as error:
        raise usage(f"{flag}: {error}") from error


def money(flag: str, amount: Decimal) -> Money:
    """An amount in dollars."""
    try:
        return money_of(amount)
    except UnrepresentableAmount as error:
        raise usage(f"{flag}: {error}") from error


def time(moment: datetime | None) -> Timestamp | None:
    """A time that may be absent."""
    return None if moment is None else timestamp_of(moment)
