"""The errors that gRPC's C core answers by itself, in place of any of `servicekit.reasons`."""

from dataclasses import dataclass
from typing import Final

from grpc import StatusCode


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreAnswer:
    """An error that gRPC's C core answers by itself, before or after us: without a reason, in no log of ours.

    `text`: the status message, `*` for what differs from case to case.
    """

    code: StatusCode
    text: str
    when: str


CORE_ANSWERS: Final = (
    CoreAnswer(
        code=StatusCode.DEADLINE_EXCEEDED,
        text="Deadline Exceeded",
        when="The deadline had passed at arrival, or passed before an answer could be sent or was taken.",
    ),
    CoreAnswer(
        code=StatusCode.INTERNAL,
        text="Error parsing 'grpc-timeout' metadata",
        when="A `grpc-timeout` that is no number with a unit (`H`, `M`, `S`, `m`, `u`, `n`).",
    ),
    CoreAnswer(
        code=StatusCode.INTERNAL,
        text="Error parsing '*-bin' metadata: *",
        when="A binary metadata value that is not base64.",
    ),
    CoreAnswer(
        code=StatusCode.INTERNAL, text="Illegal header key: *", when="A metadata key that is not lower-case."
    ),
    CoreAnswer(
        code=StatusCode.RESOURCE_EXHAUSTED,
        text="received metadata size exceeds * limit *",
        when="More than 16 KiB of metadata: now and then; more than 20 KiB: always.",
    ),
    CoreAnswer(
        code=StatusCode.RESOURCE_EXHAUSTED,
        text="*: Received message larger than max *",
        when="A message above the server's size limit.",
    ),
    CoreAnswer(
        code=StatusCode.UNAVAILABLE,
        text="*",
        when="No connection, a lost one, or a server at the very end of its shutdown. Retry with backoff.",
    ),
)
