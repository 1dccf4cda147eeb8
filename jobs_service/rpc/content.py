"""Who sees content: payloads, results, the text of tokens, and what providers said of them in errors."""

from typing import Final

from hourglass.jobs.v1 import job_pb2
from jobs_store.events import EventKind
from servicekit.call import Call
from servicekit.identity.errors import ScopeMissing
from servicekit.identity.scopes import Scope

_TEXT: Final = EventKind.TOKEN_DELTA
_WITHOUT_TEXT: Final = frozenset(EventKind) - {_TEXT}


def require_content(call: Call, *, asked: bool) -> None:
    """Raises ScopeMissing when content is asked for by somebody who may not see it."""
    if asked and not _sees_content(call):
        raise ScopeMissing((Scope.READ_CONTENT,), field="include_content")


def visible_kinds(call: Call, asked: frozenset[EventKind]) -> frozenset[EventKind]:
    """The kinds of events that a watcher gets; empty: all. Without the scope there are no token deltas, and
    asking for them by name raises ScopeMissing."""
    if _sees_content(call):
        return asked
    if _TEXT in asked:
        raise ScopeMissing((Scope.READ_CONTENT,), field="kinds")
    return asked or _WITHOUT_TEXT


def without_error_texts(call: Call, job: job_pb2.Job) -> job_pb2.Job:
    """A provider's own words about a failure may repeat what it was asked; class and cause stay."""
    if not _sees_content(call):
        for attempt in job.attempts:
            attempt.ClearField("error_message")
    return job


def _sees_content(call: Call) -> bool:
    return Scope.READ_CONTENT in call.principal.scopes
