"""Watching a job: every event as a line, over dropped streams and restarted servers."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

from rich.live import Live
from rich.text import Text

from budget.errors import BudgetError, UpstreamError
from hourglass.jobs.v1.event_pb2 import JobEvent
from hourglass.jobs.v1.job_pb2 import JobState
from hourglass.jobs.v1.jobs_service_pb2 import WatchJobRequest
from jobsctl.exits import Failure
from jobsctl.jobs.lines import event_line, state_name
from jobsctl.printer import Printer
from jobsctl.session import Session
from presentation.values import printable

RESUME: Final = "RESUME"
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 2.0
PATIENCE: Final = 30.0
REDRAWS_PER_SECOND: Final = 12
PREVIEW: Final = 60

Show = Callable[[JobEvent], None]


@dataclass(slots=True)
class Reader:
    """How far a reader is, and what it saw last."""

    cursor: int = 0
    state: JobState.ValueType = JobState.JOB_STATE_UNSPECIFIED
    cause: str = ""
    attempt: int = 0
    tokens: int = 0

    def take(self, event: JobEvent) -> None:
        """The next event."""
        self.cursor = event.sequence
        match event.WhichOneof("event"):
            case "state_changed":
                self.state, self.cause = event.state_changed.state, event.state_changed.cause
            case "attempt_started":
                self.attempt, self.tokens = event.attempt_number, 0
            case "token_delta":
                self.tokens += event.token_delta.token_count
            case _:
                pass


async def watch(session: Session, job_id: str, *, after: int, text: bool) -> None:
    """Show every event after the cursor until the job's last. Raises Failure when it ended badly."""
    reader = Reader(cursor=after)
    with _shown(session.printer, text=text) as shown:

        def show(event: JobEvent) -> None:
            reader.take(event)
            shown.show(event, reader)

        await follow(session, job_id, reader, show)
    if reader.state not in {JobState.JOB_STATE_SUCCEEDED, JobState.JOB_STATE_UNSPECIFIED}:
        name = state_name(reader.state)
        raise Failure(f"JOB_{name}", f"the job ended {name}, because of {reader.cause}")


async def follow(session: Session, job_id: str, reader: Reader, show: Show) -> None:
    """The stream to its end. RESUME and lost connections are gone on from, at the reader's cursor.

    An error before the first message is the caller's, and so is one that lasts for `PATIENCE` seconds.
    """
    pauses = _Pauses()
    while True:
        before = reader.cursor
        try:
            await _read(session, job_id, reader, show, pauses)
        except BudgetError as error:
            if reader.cursor > before:
                pauses.reset()
            if not pauses.may_go_on(error):
                raise
            if _reason(error) != RESUME:
                session.printer.remark(f"the stream broke; it goes on after sequence {reader.cursor}")
            await asyncio.sleep(pauses.take())
        else:
            return


async def _read(session: Session, job_id: str, reader: Reader, show: Show, pauses: "_Pauses") -> None:
    request = WatchJobRequest(job_id=job_id, after_sequence=reader.cursor)
    async with session.stream("WatchJob", session.jobs.WatchJob, request) as messages:
        async for message in messages:
            pauses.reset()
            if message.WhichOneof("message") == "event":
                show(message.event)


class _Pauses:
    """How long to wait before the next try, and for how long to try at all."""

    def __init__(self) -> None:
        self._next = FIRST_PAUSE
        self._random = Random()  # noqa: S311 - spreads callers, hides nothing
        self._last_success: float | None = None

    def reset(self) -> None:
        """The stream works."""
        self._next = FIRST_PAUSE
        self._last_success = time.monotonic()

    def may_go_on(self, error: BudgetError) -> bool:
        """Whether another try makes sense after this error."""
        if not isinstance(error, UpstreamError) or error.code != "UNAVAILABLE":
            return False
        if error.upstream_reason == RESUME:
            return True
        return self._last_success is not None and time.monotonic() - self._last_success < PATIENCE

    def take(self) -> float:
        """The next pause, with full jitter."""
        pause, self._next = self._next, min(self._next * 2, LONGEST_PAUSE)
        return self._random.uniform(0, pause)


def _reason(error: BudgetError) -> str:
    return error.upstream_reason if isinstance(error, UpstreamError) else ""


class _Shown(Protocol):
    """Somewhere to show events."""

    def show(self, event: JobEvent, reader: Reader) -> None:
        """Show the next event."""


@contextmanager
def _shown(printer: Printer, *, text: bool) -> Iterator[_Shown]:
    if printer.json:
        yield _JsonLines(printer)
    elif text:
        shown = _TextOnly(printer)
        yield shown
        shown.end()
    elif printer.interactive:
        with Live(console=printer.out, refresh_per_second=REDRAWS_PER_SECOND, transient=True) as live:
            yield _LiveLines(printer, live)
    else:
        yield _Lines(printer)


class _JsonLines:
    """Every event as a line of JSON."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer

    def show(self, event: JobEvent, _reader: Reader) -> None:
        self._printer.json_line(event)


class _Lines:
    """Every event as a line."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer

    def show(self, event: JobEvent, _reader: Reader) -> None:
        self._printer.line(event_line(event))
        self._printer.out.file.flush()


class _LiveLines:
    """Events as lines that stay; text as one line that is drawn over."""

    def __init__(self, printer: Printer, live: Live) -> None:
        self._printer = printer
        self._live = live
        self._text = ""

    def show(self, event: JobEvent, reader: Reader) -> None:
        if event.HasField("attempt_started"):
            self._text = ""
        if event.HasField("token_delta"):
            self._text = (self._text + event.token_delta.text)[-PREVIEW:]
        else:
            self._printer.line(event_line(event))
        end = printable(self._text.replace("\n", " "))
        status = f"{state_name(reader.state)} | attempt {reader.attempt} | {reader.tokens} tokens | {end}"
        self._live.update(Text(status, style="cyan", no_wrap=True, overflow="ellipsis"))


class _TextOnly:
    """Nothing but the answer, as it comes. An attempt that starts anew is told on stderr."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer
        self._wrote = False

    def show(self, event: JobEvent, _reader: Reader) -> None:
        if event.HasField("attempt_started") and self._wrote:
            self.end()
            self._printer.remark("the answer starts anew")
            self._wrote = False
        if event.HasField("token_delta"):
            self._wrote = True
            self._printer.out.print(Text(printable(event.token_delta.text)), end="", soft_wrap=True)
            self._printer.out.file.flush()

    def end(self) -> None:
        """The last line ends."""
        if self._wrote:
            self._printer.out.print()
