"""Every error tells its reason, and nothing of the inside."""

import re
from pathlib import Path
from typing import ClassVar, TypeVar

import pytest
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, PreconditionFailure, QuotaFailure, RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode

from servicekit.errors import (
    MAX_DETAILS_BYTES,
    FieldViolation,
    InvalidRequest,
    MethodNotFound,
    known_error,
    shorten,
    status_of,
)
from servicekit.reasons import REASONS
from servicekit.reasons_page import as_markdown

Detail = TypeVar("Detail", bound=Message)
ROOT = Path(__file__).parents[3]


def detail(status: Status, kind: type[Detail]) -> Detail | None:
    for packed in status.details:
        found = kind()
        if packed.Unpack(found):
            return found
    return None


class Funds(Exception):
    reason = "INSUFFICIENT_FUNDS"
    subject = "tenant:demo"
    retry_after = 1.5


class Gone(Exception):
    reason = "CONTENT_GONE"
    subject = "job:1"


def test_the_page_of_errors_is_what_the_table_says() -> None:
    page = (ROOT / "docs" / "errors.md").read_text()

    assert as_markdown() == page, "run `python -m servicekit.reasons_page > docs/errors.md`"


def test_every_reason_that_the_contract_names_stands_in_the_table_with_its_code() -> None:
    text = "".join(file.read_text() for file in (ROOT / "protos").rglob("*.proto"))
    codes = "|".join(code.name for code in StatusCode)

    named = set(re.findall(rf"`({codes})/([A-Z_]+)`", text))

    assert named
    assert named == {(REASONS[name].code.name, name) for _, name in named if name in REASONS}


def test_every_reason_is_upper_snake_and_stands_under_its_own_name() -> None:
    for name, reason in REASONS.items():
        assert name == reason.name
        assert name.replace("_", "").isupper()
        assert reason.code is not StatusCode.OK


def test_every_violation_goes_to_the_caller_at_once() -> None:
    error = InvalidRequest(
        FieldViolation("spec.model", "is required"), FieldViolation("spec.messages", "is empty")
    )

    status = status_of(error)

    assert StatusCode.INVALID_ARGUMENT.value[0] == status.code
    assert status.message == "spec.model: is required; spec.messages: is empty"
    request = detail(status, BadRequest)
    assert request is not None
    assert [violation.field for violation in request.field_violations] == ["spec.model", "spec.messages"]


def test_a_flood_of_violations_is_cut_and_counted() -> None:
    flood = [FieldViolation(f"spec.messages[{n}]", "x" * 300) for n in range(5000)]

    status = status_of(InvalidRequest(*flood))

    assert status.ByteSize() <= MAX_DETAILS_BYTES
    request, info = detail(status, BadRequest), detail(status, ErrorInfo)
    assert request is not None
    assert info is not None
    assert len(request.field_violations) > 0
    assert len(request.field_violations) + int(info.metadata["omitted_violations"]) == 5000


def test_a_lack_of_funds_names_whose_quota_and_when_to_come_back() -> None:
    status = status_of(Funds("12 USD are missing"))

    quota, retry = detail(status, QuotaFailure), detail(status, RetryInfo)
    assert quota is not None
    assert (quota.violations[0].subject, quota.violations[0].description) == (
        "tenant:demo",
        "12 USD are missing",
    )
    assert retry is not None
    assert retry.retry_delay.ToTimedelta().total_seconds() == 1.5


def test_a_failed_precondition_names_its_type() -> None:
    failure = detail(status_of(Gone("erased")), PreconditionFailure)

    assert failure is not None
    assert (failure.violations[0].type, failure.violations[0].subject) == ("CONTENT_GONE", "job:1")


def test_a_method_that_is_not_served_is_named() -> None:
    info = detail(status_of(MethodNotFound("hourglass.jobs.v1.JobService/Sing")), ErrorInfo)

    assert info is not None
    assert (info.reason, info.domain) == ("METHOD_NOT_FOUND", "hourglass")
    assert info.metadata["method"] == "hourglass.jobs.v1.JobService/Sing"


@pytest.mark.parametrize("error", [ValueError("dsn postgres://u:secret@db/x"), KeyError("secret")])
def test_an_unknown_error_tells_nothing_of_the_inside(error: Exception) -> None:
    status = status_of(error)

    assert StatusCode.INTERNAL.value[0] == status.code
    assert b"secret" not in status.SerializeToString()
    info = detail(status, ErrorInfo)
    assert info is not None
    assert info.reason == "INTERNAL"


def test_an_error_with_a_reason_that_no_table_knows_is_internal() -> None:
    class Odd(Exception):
        reason = "NO_SUCH_REASON"

    assert b"inside" not in status_of(Odd("inside")).SerializeToString()


def test_huge_metadata_never_costs_the_reason() -> None:
    class Wordy(Exception):
        reason = "UNKNOWN_MODEL"
        metadata: ClassVar = {f"{n}" * 200: "y" * 10_000 for n in range(30)}

    info = detail(status_of(Wordy("z" * 10_000)), ErrorInfo)

    assert status_of(Wordy("z" * 10_000)).ByteSize() <= MAX_DETAILS_BYTES
    assert info is not None
    assert info.reason == "UNKNOWN_MODEL"


def test_a_known_error_is_found_inside_a_group() -> None:
    gone = Gone("erased")

    assert gone is known_error(ExceptionGroup("fan-out", [ValueError("x"), ExceptionGroup("inner", [gone])]))


def test_a_text_is_cut_between_characters() -> None:
    assert shorten("ä" * 10, 10) == "äää..."
