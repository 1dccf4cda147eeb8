"""docs/errors.md, written from the table of reasons: `python -m servicekit.reasons_page` prints it."""

from collections.abc import Iterable
from typing import Final

from servicekit.core_answers import CORE_ANSWERS
from servicekit.reasons import REASONS, Reason


def as_markdown(reasons: Iterable[Reason] = REASONS.values()) -> str:
    """The text of docs/errors.md."""
    rows = (
        f"| `{r.name}` | `{r.code.name}` | {'yes' if r.retryable else 'no'} | {r.meaning} | {r.action} |"
        for r in sorted(reasons, key=lambda reason: reason.name)
    )
    core = (f"| `{answer.code.name}` | `{answer.text}` | {answer.when} |" for answer in CORE_ANSWERS)
    return "\n".join((*_HEAD, *rows, *_CORE_HEAD, *core, ""))


_HEAD: Final = (
    "# Error reasons",
    "",
    "<!-- Written by `python -m servicekit.reasons_page`; edit servicekit/reasons.py instead. -->",
    "",
    "Every error carries a `google.rpc.ErrorInfo` with one of these reasons and the domain `hourglass`.",
    "Switch on the reason, not on the text. Where they apply, `RetryInfo`, `QuotaFailure`,",
    "`PreconditionFailure` or `BadRequest` come with it. Details take at most 4 kB: when violations",
    "had to be left out, `ErrorInfo.metadata` says how many in `omitted_violations`.",
    "",
    "A few errors come from the gRPC transport itself and carry no reason; they stand at the page's end.",
    "",
    "*Retry*: the same request may succeed later without a change.",
    "",
    "| Reason | Code | Retry | Meaning | What to do |",
    "|---|---|---|---|---|",
)

_CORE_HEAD: Final = (
    "",
    "## Errors without a reason",
    "",
    "The gRPC transport answers these by itself; `*` stands for what differs. What it refuses before a",
    "handler could run (all but a deadline that passes later) is in no log line and no metric of ours.",
    "",
    "| Code | Text | When |",
    "|---|---|---|",
)


if __name__ == "__main__":
    print(as_markdown(), end="")  # noqa: T201 - this is the output
