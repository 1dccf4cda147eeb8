"""Watching a job: every event as a line, over dropped streams and restarted servers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from rich.live import Live
from rich.text import Text

from hourglass.jobs.v1.event_pb2 import JobEvent
from hourglass.jobs.v1.job_pb2 import JobState
from hourglass_client import HourglassError, Transcript
from jobsctl.exits import Failure
from jobsctl.jobs.lines import event_line, state_name
from jobsctl.printer import Printer
from jobsctl.session import Session
from presentation.values import printable

RESUME: Final = "RESUME"
REDRAWS_PER_SECOND: Final = 12
PREVIEW: Final = 60


async def watch(session: Session, job_id: str, *, after: int, text: bool) -> None:
    """Show every event after the cursor until the job's last. Raises Failure when it ended badly.

    Lost connections are gone on from; an error before the first event is the caller's.
    """
    reader = Transcript(after=after)

    def broke(error: HourglassError) -> None:
        if error.reason == RESUME:
            return
        if reader.cursor == after:
            raise error
        session.printer.remark(f"the stream broke; it goes on after sequence {reader.cursor}")

    watched = session.client.watch(job_id, transcript=reader, timeout=session.remaining(), on_break=broke)
    with _shown(session.printer, text=text) as shown:
        async with watched as events:
            async for event in events:
                shown.show(event, reader)
    if reader.state not in {JobState.JOB_STATE_SUCCEEDED, JobState.JOB_STATE_UNSPECIFIED}:
        name = state_name(reader.state)
        raise Failure(f"JOB_{name}", f"the job ended {name}, because of {reader.cause}")


class _Shown(Protocol):
    """Somewhere to show events."""

    def show(self, event: JobEvent, reader: Transcript) -> None:
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

    def show(self, event: JobEvent, _reader: Transcript) -> None:
        self._printer.json_line(event)


class _Lines:
    """Every event as a line."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer

    def show(self, event: JobEvent, _reader: Transcript) -> None:
        self._printer.line(event_line(event))
        self._printer.out.file.flush()


class _LiveLines:
    """Events as lines that stay; text as one line that is drawn over."""

    def __init__(self, printer: Printer, live: Live) -> None:
        self._printer = printer
        self._live = live

    def show(self, event: JobEvent, reader: Transcript) -> None:
        if not event.HasField("token_delta"):
            self._printer.line(event_line(event))
        end = printable(reader.text[-PREVIEW:].replace("\n", " "))
        status = (
            f"{state_name(reader.state)} | attempt {reader.attempt} | {reader.token_count} tokens | {end}"
        )
        self._live.update(Text(status, style="cyan", no_wrap=True, overflow="ellipsis"))


class _TextOnly:
    """Nothing but the answer, as it comes. An attempt that starts anew is told on stderr."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer
        self._wrote = False

    def show(self, event: JobEvent, _reader: Transcript) -> None:
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
