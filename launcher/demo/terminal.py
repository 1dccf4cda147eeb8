"""What the demo shows: the same words with and without colour, on a terminal and in a file."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from hourglass_client import Transcript
from launcher.demo.answer import Answer, Progress

INDENT: Final = 2
REDRAWS_PER_SECOND: Final = 12
LABEL_WIDTH: Final = 16
WIDTH_OF_FILES: Final = 110


class Terminal:
    """Writes to stdout; failures to stderr. Honours NO_COLOR; draws with ASCII where nothing else is safe."""

    def __init__(self, out: Console | None = None, errors: Console | None = None) -> None:
        self.out = out or _console()
        self._errors = errors or Console(stderr=True, highlight=False)

    @property
    def unicode(self) -> bool:
        """Whether block characters can be written."""
        return self.out.encoding.lower().startswith("utf")

    @property
    def interactive(self) -> bool:
        """Whether somebody watches, so that a line may be drawn over."""
        return self.out.is_terminal and not self.out.is_dumb_terminal

    def heading(self, text: str) -> None:
        """A new part."""
        self.out.print()
        self.out.print(Rule(Text(text, style="bold"), align="left", style="dim"))

    def fact(self, label: str, *values: str) -> None:
        """One line: what it is about, and what is known."""
        grid = Table.grid(padding=(0, 1))
        grid.add_column(style="cyan", width=LABEL_WIDTH)
        grid.add_column()
        grid.add_row(label, Text(" ".join(values)))
        self.show(grid)

    def note(self, text: str) -> None:
        """A remark of the demo about itself."""
        self.show(Text(text, style="yellow"))

    def show(self, what: RenderableType) -> None:
        """A table, or a text that is wrapped."""
        self.out.print(Padding(what, (0, 0, 0, INDENT), expand=False))

    def text(self, text: str) -> None:
        """A text of the model's, wrapped."""
        self.show(Text(text))

    def success(self, text: str) -> None:
        """The last line of a demo that did what it promises."""
        self.show(Text(text, style="bold green"))

    def failure(self, text: str) -> None:
        """The last line of one that did not."""
        self._errors.print(Text(text, style="bold red"), soft_wrap=True)

    @contextmanager
    def answer(self, progress: Progress) -> Iterator[Answer]:
        """Shows an answer as it grows, with a line that tells how far it is where somebody watches."""
        if not self.interactive:
            yield _PlainAnswer(self.out)
            self.out.print()
            return
        with Live(
            console=self.out, refresh_per_second=REDRAWS_PER_SECOND, transient=True, redirect_stderr=False
        ) as live:
            answer = _LiveAnswer(live, progress)
            yield answer
        self.text(answer.text)
        self.show(Text(progress.line(answer.transcript, time.monotonic()), style="dim"))


def _console() -> Console:
    """As wide as the terminal; a file takes whole lines."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH_OF_FILES)


class _PlainAnswer:
    """Writes each piece as it comes."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._shown = ""

    def show(self, transcript: Transcript) -> None:
        """Write what is new; tell what of the written is void."""
        text = transcript.text
        if text and self._shown.startswith(text):
            self._void(len(self._shown) - len(text))
        elif not text.startswith(self._shown):
            self._out.print("\n-- the answer starts anew --")
            self._shown = ""
        self._out.print(Text(text[len(self._shown) :]), end="", soft_wrap=True)
        self._out.file.flush()
        self._shown = text

    def _void(self, characters: int) -> None:
        if characters:
            self._out.print(f"\n-- the last {characters} characters are void --")

    def note(self, text: str) -> None:
        """A remark between the pieces."""
        self._out.print(f"\n-- {text} --", soft_wrap=True)


class _LiveAnswer:
    """Redraws the end of the answer, the remarks, and one line of progress."""

    def __init__(self, live: Live, progress: Progress) -> None:
        self.transcript = Transcript()
        self._live = live
        self._progress = progress

    @property
    def text(self) -> str:
        """The answer as it stands."""
        return self.transcript.text

    def show(self, transcript: Transcript) -> None:
        """Draw it."""
        self.transcript = transcript
        height = max(self._live.console.height - 6, 3)
        body = Text(self.text).wrap(self._live.console, max(self._live.console.width - 2 * INDENT, 20))
        line = Text(self._progress.line(transcript, time.monotonic()), style="cyan")
        self._live.update(Padding(Group(*body[-height:], line), (0, INDENT)))

    def note(self, text: str) -> None:
        """A remark above the answer, which stays."""
        self._live.console.print(Padding(Text(text, style="yellow"), (0, 0, 0, INDENT)))
