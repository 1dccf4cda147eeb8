"""From what the HTTP client or the budget raises to a ProviderError. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import httpx2
from anyio import EndOfStream
from openai import APIConnectionError, APIError, APIStatusError

from budget.errors import (
    BudgetError,
    BudgetExhausted,
    BudgetTooLow,
    FirstByteTimeout,
    SpuriousCancel,
    StallTimeout,
    UpstreamTimeout,
)
from worker.providers.errors import Cause, ProviderError
from worker.providers.http_status import cause_of_status, codes_of_body, retry_after_seconds, time_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from worker.providers.answer import Answer

REQUEST_ID_HEADERS: Final = ("x-request-id", "request-id", "x-amzn-requestid", "apim-request-id")
_WORD: Final = re.compile(r"[a-z0-9_.-]{1,64}")
_FILTERED: Final = frozenset({"content_filter", "content_policy_violation"})


def failure_of(error: Exception, answer: Answer, *, sent: bool) -> ProviderError:
    """What the exception means. `sent`: whether a byte of the request has left."""
    if isinstance(error, ProviderError):
        return error
    if isinstance(error, APIStatusError):
        return _refusal(error, answer.provider)
    return ProviderError(
        _cause_of_budget(error, sent=sent) if isinstance(error, BudgetError) else _cause(error, sent=sent),
        provider=answer.provider,
        sent=sent,
        provider_request_id=answer.provider_request_id,
        usage=answer.usage,
        words=f"{type(error).__name__}: {error.__cause__ or error}",
        kind=type(error.__cause__ or error).__name__,
    )


def request_id_of(headers: Mapping[str, str]) -> str:
    """The provider's id of the request; empty if it names none."""
    return next((headers[name][:200] for name in REQUEST_ID_HEADERS if name in headers), "")


def _refusal(error: APIStatusError, provider: str) -> ProviderError:
    headers = error.response.headers
    return ProviderError(
        cause_of_status(error.status_code, codes_of_body(error.body)),
        provider=provider,
        http_status=error.status_code,
        retry_after=retry_after_seconds(
            headers.get("retry-after"), now=time_of(headers.get("date")) or datetime.now(UTC)
        ),
        provider_request_id=request_id_of(headers),
        words=error.message,
        kind=",".join(sorted(filter(_WORD.fullmatch, codes_of_body(error.body)))),
    )


def _cause_of_budget(error: BudgetError, *, sent: bool) -> Cause:
    match error:
        case BudgetTooLow():
            return Cause.BUDGET_TOO_LOW
        case BudgetExhausted(__cause__=FirstByteTimeout() | StallTimeout() as silence):
            # The silence reached its own limit first: whose time that was does not matter to the attempt.
            return _cause_of_budget(silence, sent=sent)
        case BudgetExhausted():
            return Cause.BUDGET_EXHAUSTED
        case SpuriousCancel():
            return Cause.CONNECTION_LOST if sent else Cause.CONNECT_FAILED
        case UpstreamTimeout() if not sent:
            return Cause.CONNECT_TIMEOUT
        case FirstByteTimeout():
            return Cause.FIRST_TOKEN_TIMEOUT
        case StallTimeout():
            return Cause.BETWEEN_TOKENS_TIMEOUT
        case _:
            return Cause.TOTAL_TIMEOUT


def _cause(error: Exception, *, sent: bool) -> Cause:
    match error:
        case _ if not sent:
            return _cause_before_sending(error)
        case APIConnectionError():
            return Cause.CONNECTION_LOST
        case APIError():
            filtered = codes_of_body(error.body) & _FILTERED
            return Cause.CONTENT_FILTERED if filtered else Cause.ERROR_IN_STREAM
        case _:
            return Cause.MALFORMED_STREAM


def _cause_before_sending(error: Exception) -> Cause:
    match error.__cause__ if isinstance(error, APIConnectionError) else error:
        case httpx2.TimeoutException():
            return Cause.CONNECT_TIMEOUT
        case httpx2.NetworkError() | httpx2.ProxyError() | httpx2.RemoteProtocolError():
            return Cause.CONNECT_FAILED
        case OSError() | EndOfStream():
            return Cause.CONNECT_FAILED
        case _:
            return Cause.REQUEST_UNSENDABLE
