"""A failed call, as its caller sees it."""

import grpc
from google.rpc.code_pb2 import INVALID_ARGUMENT
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from presentation.rpc_failure import RpcFailure
from servicekit.wire_time import duration_of


def error(code: grpc.StatusCode, message: str, *trailers: tuple[str, str | bytes]) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailers), details=message)


def test_code_reason_message_fields_and_pause_are_told() -> None:
    status = Status(code=INVALID_ARGUMENT)
    for detail in (
        ErrorInfo(reason="INVALID_ARGUMENT"),
        BadRequest(
            field_violations=[
                BadRequest.FieldViolation(field="spec.model", description="is required"),
                BadRequest.FieldViolation(field="spec.messages", description="is empty"),
            ]
        ),
        RetryInfo(retry_delay=duration_of(1.5)),
    ):
        status.details.add().Pack(detail)
    failed = error(
        grpc.StatusCode.INVALID_ARGUMENT, "bad", ("grpc-status-details-bin", status.SerializeToString())
    )
    assert str(RpcFailure.of(failed)) == (
        "INVALID_ARGUMENT/INVALID_ARGUMENT: bad; spec.model: is required; spec.messages: is empty; "
        "retry after 1.5 s"
    )


def test_an_error_without_details_is_told_as_it_is() -> None:
    failed = error(grpc.StatusCode.UNAVAILABLE, "connection refused")
    assert str(RpcFailure.of(failed)) == "UNAVAILABLE: connection refused"


def test_details_that_cannot_be_read_hide_nothing_else() -> None:
    failed = error(grpc.StatusCode.INTERNAL, "oh", ("grpc-status-details-bin", b"\xff\xff"))
    assert str(RpcFailure.of(failed)) == "INTERNAL: oh"
