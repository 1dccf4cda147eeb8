"""The one table of error reasons: code, meaning, and what the caller should do.

Every error that leaves a server carries a `google.rpc.ErrorInfo` whose reason stands here (AIP-193).
`python -m servicekit.reasons_page` prints docs/errors.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from grpc import StatusCode

DOMAIN: Final = "hourglass"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One line of the table. `retryable`: the same request may succeed later, unchanged."""

    name: str
    code: StatusCode
    meaning: str
    action: str
    retryable: bool = False


def _table(*reasons: Reason) -> Mapping[str, Reason]:
    return MappingProxyType({reason.name: reason for reason in reasons})


REASONS: Final = _table(
    # The request itself.
    Reason(
        name="INVALID_ARGUMENT",
        code=StatusCode.INVALID_ARGUMENT,
        meaning="One or more fields, or the request's metadata, are wrong.",
        action="Fix every field listed in BadRequest.field_violations and send again.",
    ),
    # Who calls, and what they may do.
    Reason(
        name="MISSING_CREDENTIALS",
        code=StatusCode.UNAUTHENTICATED,
        meaning="The server wants to know who calls, and the request does not say.",
        action="Send `authorization: Bearer` with a token or an API key, or call with a certificate.",
    ),
    Reason(
        name="INVALID_TOKEN",
        code=StatusCode.UNAUTHENTICATED,
        meaning="The token is malformed, not signed by a known key, or not meant for this service.",
        action="Get a token for this service from its issuer. ErrorInfo.metadata says what is wrong with it.",
    ),
    Reason(
        name="TOKEN_EXPIRED",
        code=StatusCode.UNAUTHENTICATED,
        meaning="The token was good and its time is over.",
        action="Get a fresh token from its issuer.",
    ),
    Reason(
        name="UNKNOWN_API_KEY",
        code=StatusCode.UNAUTHENTICATED,
        meaning="There is no such API key, or its secret is another.",
        action="Check the key; an operator makes a new one if it is lost.",
    ),
    Reason(
        name="API_KEY_EXPIRED",
        code=StatusCode.UNAUTHENTICATED,
        meaning="The API key was good and its time is over.",
        action="Ask an operator for a new key.",
    ),
    Reason(
        name="API_KEY_REVOKED",
        code=StatusCode.UNAUTHENTICATED,
        meaning="The API key was good and has been revoked.",
        action="Ask an operator for a new key.",
    ),
    Reason(
        name="UNKNOWN_SERVICE",
        code=StatusCode.UNAUTHENTICATED,
        meaning="The certificate is good and names no service that this server was told of.",
        action="Add the certificate's name to the server's services, or send a token.",
    ),
    Reason(
        name="SIGNING_KEYS_UNAVAILABLE",
        code=StatusCode.UNAVAILABLE,
        meaning="The token names an unknown signing key, and the issuer's keys cannot be had now.",
        action="Retry with backoff. Tokens signed by known keys go on working.",
        retryable=True,
    ),
    Reason(
        name="SCOPE_MISSING",
        code=StatusCode.PERMISSION_DENIED,
        meaning="The caller is known and lacks a scope for this call, or for a field of it.",
        action="Ask an operator for the scopes in ErrorInfo.metadata, or leave out the `field` named there.",
    ),
    Reason(
        name="DELEGATION_REFUSED",
        code=StatusCode.PERMISSION_DENIED,
        meaning="The request names a tenant, a user or scopes in its metadata; only trusted services may.",
        action="Leave out `x-tenant-id`, `x-user-id` and `x-scopes`: the credentials say who calls.",
    ),
    Reason(
        name="SERVICES_ONLY",
        code=StatusCode.PERMISSION_DENIED,
        meaning="This server answers the services that it was told of, and nobody else.",
        action="Call JobService, or add the caller to the server's services.",
    ),
    Reason(
        name="API_KEY_NOT_FOUND",
        code=StatusCode.NOT_FOUND,
        meaning="The tenant has no API key of that id; said to operators.",
        action="List the tenant's keys and check the id.",
    ),
    Reason(
        name="METHOD_NOT_FOUND",
        code=StatusCode.UNIMPLEMENTED,
        meaning="This server has no such method.",
        action="Check the address and the method name; `grpcurl HOST:PORT list` shows what is served.",
    ),
    # The budget.
    Reason(
        name="BUDGET_TOO_LOW",
        code=StatusCode.DEADLINE_EXCEEDED,
        meaning="Too little time was left for a required step to be useful; it was not started.",
        action="Send again with a longer deadline.",
    ),
    Reason(
        name="BUDGET_EXHAUSTED",
        code=StatusCode.DEADLINE_EXCEEDED,
        meaning="The request's own budget ran out; `budget-ledger` shows where the time went.",
        action="Send again with a longer deadline. A create is safe to repeat with its idempotency key.",
    ),
    Reason(
        name="UPSTREAM_TIMEOUT",
        code=StatusCode.DEADLINE_EXCEEDED,
        meaning="A service that this one calls used up its own limit while budget remained.",
        action="Retry with backoff.",
        retryable=True,
    ),
    Reason(
        name="DATABASE_TIMEOUT",
        code=StatusCode.UNAVAILABLE,
        meaning="The database, or the wait for a connection to it, used up its limit while budget remained.",
        action="Retry with backoff.",
        retryable=True,
    ),
    # Capacity and availability.
    Reason(
        name="UPSTREAM_ERROR",
        code=StatusCode.UNAVAILABLE,
        meaning="A service that this one calls failed or cannot be reached; ErrorInfo.metadata names it.",
        action="Retry with backoff.",
        retryable=True,
    ),
    Reason(
        name="DATABASE_CONFLICT",
        code=StatusCode.ABORTED,
        meaning="Another transaction won; nothing was changed.",
        action="Retry at once, with backoff if it repeats.",
        retryable=True,
    ),
    Reason(
        name="COMMIT_OUTCOME_UNKNOWN",
        code=StatusCode.UNAVAILABLE,
        meaning="The database was lost while a commit was on its way: the change holds or it does not.",
        action="Send the same request again with the same idempotency key or request_id, or read the state.",
        retryable=True,
    ),
    Reason(
        name="DATABASE_UNAVAILABLE",
        code=StatusCode.UNAVAILABLE,
        meaning="The database cannot be reached, or the connection to it was lost.",
        action="Retry with backoff. A create is safe to repeat with its idempotency key.",
        retryable=True,
    ),
    Reason(
        name="PRICING_UNAVAILABLE",
        code=StatusCode.UNAVAILABLE,
        meaning="No price could be had in the time allowed; nothing was created.",
        action="Retry with backoff.",
        retryable=True,
    ),
    Reason(
        name="NEWER_RELEASE_NEEDED",
        code=StatusCode.UNAVAILABLE,
        meaning="The key was made by a newer release than this server's, which cannot compare the spec.",
        action="Send again: a server of that release can. The job is there, unchanged.",
        retryable=True,
    ),
    Reason(
        name="WORKER_UNAVAILABLE",
        code=StatusCode.UNAVAILABLE,
        meaning="No worker can be reached for this call.",
        action="Retry with backoff, or create a job: it waits for a worker.",
        retryable=True,
    ),
    Reason(
        name="PROVIDER_UNAVAILABLE",
        code=StatusCode.UNAVAILABLE,
        meaning="The language model's provider failed or refused to serve at present.",
        action="Retry with backoff, or create a job: it is retried by its own policy.",
        retryable=True,
    ),
    Reason(
        name="PROVIDER_REFUSED",
        code=StatusCode.FAILED_PRECONDITION,
        meaning="The language model's provider refused the request as it stands.",
        action="Change the request; ErrorInfo.metadata names the cause.",
    ),
    Reason(
        name="LANE_PAUSED",
        code=StatusCode.UNAVAILABLE,
        meaning="The provider route of this model is paused or parked.",
        action="Retry after RetryInfo, or create a job: it waits for the lane.",
        retryable=True,
    ),
    Reason(
        name="RATE_LIMITED",
        code=StatusCode.RESOURCE_EXHAUSTED,
        meaning="The tenant sends more requests a second than it may; nothing was looked at.",
        action="Retry after the delay in RetryInfo, with the same key. ErrorInfo.metadata has the rate.",
        retryable=True,
    ),
    Reason(
        name="OVERLOADED",
        code=StatusCode.RESOURCE_EXHAUSTED,
        meaning="The server is at its limit, or the budget cannot cover the wait; nothing was started.",
        action="Retry after the delay in RetryInfo. `refusal` in ErrorInfo.metadata says which limit it was.",
        retryable=True,
    ),
    Reason(
        name="DRAINING",
        code=StatusCode.UNAVAILABLE,
        meaning="The server is shutting down.",
        action="Retry at once; a load-balanced channel picks another server.",
        retryable=True,
    ),
    Reason(
        name="RESUME",
        code=StatusCode.UNAVAILABLE,
        meaning="A long stream was ended on purpose: the server drains, or the stream reached its age.",
        action="Open the stream again with `after_sequence` set to the last sequence that was read.",
        retryable=True,
    ),
    Reason(
        name="RE_READ",
        code=StatusCode.OUT_OF_RANGE,
        meaning="The worker no longer holds what lies behind the cursor, or the reader was too slow.",
        action="Read the events from the store, then open the stream again from the last of them.",
        retryable=True,
    ),
    # Jobs.
    Reason(
        name="JOB_NOT_FOUND",
        code=StatusCode.NOT_FOUND,
        meaning="The tenant has no such job.",
        action="Check the id and the tenant. Another tenant's job looks the same as none.",
    ),
    Reason(
        name="IDEMPOTENCY_KEY_REUSED",
        code=StatusCode.ALREADY_EXISTS,
        meaning="The idempotency key belongs to a job with another spec.",
        action="Use a fresh key for a new job; send the first spec again to get the first job.",
    ),
    Reason(
        name="REQUEST_ID_REUSED",
        code=StatusCode.ALREADY_EXISTS,
        meaning="The request_id belongs to another decision.",
        action="Use a fresh request_id for a new decision.",
    ),
    Reason(
        name="JOB_NOT_TERMINAL",
        code=StatusCode.FAILED_PRECONDITION,
        meaning="The job has not ended, and the call needs one that has.",
        action="Wait for the job or cancel it first.",
    ),
    Reason(
        name="JOB_TERMINAL",
        code=StatusCode.FAILED_PRECONDITION,
        meaning="The job has ended, so there is nothing to cancel; said of single jobs of a bulk call.",
        action="Read the job's state.",
    ),
    Reason(
        name="JOB_NOT_FAILED",
        code=StatusCode.FAILED_PRECONDITION,
        meaning="Only a FAILED job can be retried.",
        action="Read the job's state; create a new job if another run is wanted.",
    ),
    Reason(
        name="JOB_NOT_HELD",
        code=StatusCode.FAILED_PRECONDITION,
        meaning="Only a HELD job can be resolved.",
        action="Read the job's state; somebody else may have resolved it.",
    ),
    Reason(
        name="CONTENT_GONE",
        code=StatusCode.FAILED_PRECONDITION,
        meaning="The job's payload or result was erased or has reached its retention.",
        action="Create a new job with the payload.",
    ),
    Reason(
        name="PROVIDER_COST_LIMIT",
        code=StatusCode.FAILED_PRECONDITION,
        meaning="Another attempt of the job could cost more than its provider_cost_limit leaves.",
        action="Create a new job, with a higher provider_cost_limit.",
    ),
    Reason(
        name="CURSOR_OUT_OF_RANGE",
        code=StatusCode.OUT_OF_RANGE,
        meaning="The cursor is beyond the job's events, or before the oldest that is kept.",
        action="Read the job, then watch again from the sequence in ErrorInfo.metadata or from 0.",
    ),
    Reason(
        name="NOT_OWNER",
        code=StatusCode.FAILED_PRECONDITION,
        meaning="This worker does not run that job now.",
        action="Read the job's row again and follow the worker address found there.",
    ),
    Reason(
        name="USE_A_JOB",
        code=StatusCode.FAILED_PRECONDITION,
        meaning="The estimate cannot fit into the budget of a direct call.",
        action="Create a job with the same spec.",
    ),
    # Prices and money.
    Reason(
        name="UNKNOWN_MODEL",
        code=StatusCode.NOT_FOUND,
        meaning="No price is known for this model.",
        action="Use one of the nearest names in ErrorInfo.metadata, or ListPrices.",
    ),
    Reason(
        name="INSUFFICIENT_FUNDS",
        code=StatusCode.RESOURCE_EXHAUSTED,
        meaning="The tenant's available funds do not cover the job's worst case.",
        action="Add funds, or lower max_output_tokens.",
    ),
    Reason(
        name="MAX_CHARGE_TOO_LOW",
        code=StatusCode.FAILED_PRECONDITION,
        meaning="The worst case at the rate card is above the job's max_charge.",
        action="Raise max_charge, or lower max_output_tokens.",
    ),
    Reason(
        name="QUOTE_NOT_FOUND",
        code=StatusCode.NOT_FOUND,
        meaning="The tenant has no such quote.",
        action="Ask for a new quote.",
    ),
    Reason(
        name="QUOTE_EXPIRED",
        code=StatusCode.FAILED_PRECONDITION,
        meaning="The quote is older than its time to live.",
        action="Ask for a new quote.",
    ),
    Reason(
        name="QUOTE_USED",
        code=StatusCode.FAILED_PRECONDITION,
        meaning="The quote was already used for another job.",
        action="Ask for a new quote; repeat a create with the key that it was made with.",
    ),
    Reason(
        name="QUOTE_MISMATCH",
        code=StatusCode.FAILED_PRECONDITION,
        meaning="The quote does not cover this spec: its model or token bounds are others.",
        action="Ask for a quote for this spec.",
    ),
    Reason(
        name="PRICE_VERSION_GONE",
        code=StatusCode.FAILED_PRECONDITION,
        meaning="The catalog no longer holds the rate card of that price version.",
        action="Rate with the rate card stored on the job, or without a price version.",
    ),
    Reason(
        name="FUNDS_TOO_LOW",
        code=StatusCode.FAILED_PRECONDITION,
        meaning="More would be taken from the tenant's fund than is available in it.",
        action="Take at most what is available; reserved and captured amounts stay.",
    ),
    # Tenants.
    Reason(
        name="TENANT_NOT_FOUND",
        code=StatusCode.NOT_FOUND,
        meaning="There is no such tenant.",
        action="Check the tenant's name; an operator creates tenants.",
    ),
    Reason(
        name="TENANT_EXISTS",
        code=StatusCode.ALREADY_EXISTS,
        meaning="A tenant of that name exists already.",
        action="Use the existing tenant or another name.",
    ),
    Reason(
        name="LANE_NOT_FOUND",
        code=StatusCode.NOT_FOUND,
        meaning="There is no such lane.",
        action="List the lanes and check the name.",
    ),
    Reason(
        name="OVERVIEW_NOT_CONFIGURED",
        code=StatusCode.FAILED_PRECONDITION,
        meaning="This server has no connection that sees all tenants, which the call needs.",
        action="Set HOURGLASS_JOBS_WORKER_DATABASE_URL, or ask a server that has it.",
    ),
    Reason(
        name="VERIFY_NOT_CONFIGURED",
        code=StatusCode.FAILED_PRECONDITION,
        meaning="This server has no read-only connection, which verifying needs.",
        action="Set HOURGLASS_JOBS_READONLY_DATABASE_URL, or ask a server that has it.",
    ),
    Reason(
        name="QUEUE_FULL",
        code=StatusCode.RESOURCE_EXHAUSTED,
        meaning="The tenant has as many queued jobs as it may have.",
        action="Wait until some have run, or ask for a higher limit.",
        retryable=True,
    ),
    # Faults of ours.
    Reason(
        name="SPURIOUS_CANCEL",
        code=StatusCode.INTERNAL,
        meaning="The handler was cancelled although nobody asked for it: a fault of the service.",
        action="Retry with backoff; report it with the trace id if it stays.",
        retryable=True,
    ),
    Reason(
        name="INTERNAL",
        code=StatusCode.INTERNAL,
        meaning="A fault of the service; its details stand in the server's log only.",
        action="Report it with the trace id. A create is safe to repeat with its idempotency key.",
    ),
)
