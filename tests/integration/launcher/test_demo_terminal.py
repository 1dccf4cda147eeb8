"""What the demo writes, where somebody watches and where nobody does."""

import io
import re

from rich.console import Console

from hourglass_client.transcript import Transcript
from launcher.demo.answer import Progress
from launcher.demo.terminal import Terminal
from presentation.ledger_table import waterfall_table
from tests.integration.launcher.scripted_jobs import scripted_events
from tests.ledgers import ledger, spend

TEXTS = ("The ", "sky ", "is ", "blue.")


def written(*, terminal: bool, no_color: bool = False) -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        force_terminal=terminal,
        no_color=no_color,
        width=80,
        color_system="standard" if terminal else None,
        highlight=False,
    )
    shown = Terminal(console)
    shown.heading("The answer")
    transcript = Transcript()
    with shown.answer(Progress(created=0.0, max_tokens=8)) as answer:
        for event in scripted_events(*TEXTS):
            transcript.add(event)
            answer.show(transcript)
            if transcript.token_count == 2 and event.HasField("token_delta"):
                answer.note("dropped")
    shown.success("done")
    return out.getvalue()


def test_without_a_terminal_the_pieces_are_written_as_they_come_and_nothing_is_drawn_over() -> None:
    text = written(terminal=False)
    assert "The sky \n-- dropped --\nis blue.\n" in text
    assert "\x1b" not in text
    assert "tokens/s" not in text


def test_on_a_terminal_the_whole_answer_and_its_figures_stay() -> None:
    text = written(terminal=True)
    assert "The sky is blue." in text
    assert "4 of at most 8 tokens" in text


def test_without_colour_nothing_is_coloured() -> None:
    colours = re.compile(r"\x1b\[(?:\d+;)*3[0-7](?:;\d+)*m")
    assert colours.search(written(terminal=True))
    assert not colours.search(written(terminal=True, no_color=True))


def test_an_answer_that_starts_anew_is_told_where_nothing_can_be_drawn_over() -> None:
    out = io.StringIO()
    shown = Terminal(Console(file=out, width=80))
    with shown.answer(Progress(created=0.0, max_tokens=8)) as answer:
        answer.show(Transcript.of(scripted_events("Wrong")))
        answer.show(Transcript.of(scripted_events("No")))
    assert "Wrong\n-- the answer starts anew --\nNo" in out.getvalue()


def test_text_that_died_with_its_worker_is_told_and_not_written_again() -> None:
    out = io.StringIO()
    shown = Terminal(Console(file=out, width=80))
    with shown.answer(Progress(created=0.0, max_tokens=8)) as answer:
        answer.show(Transcript.of(scripted_events("Kept", " lost")))
        answer.show(Transcript.of(scripted_events("Kept")))
        answer.show(Transcript.of(scripted_events("Kept", " anew")))
    assert "Kept lost\n-- the last 5 characters are void --\n anew" in out.getvalue()


def test_the_waterfall_fits_into_80_columns() -> None:
    spends = [
        spend("find_idempotency_key", remaining=1.8, took=0.003),
        spend("create_job", remaining=1.79, took=0.008),
    ]
    out = io.StringIO()
    console = Console(file=out, width=80)
    console.print(waterfall_table(ledger(*spends, took=0.02), width=80, unicode=False))
    lines = out.getvalue().splitlines()
    assert len(lines) == 3
    assert "postgres/find_idempotency_key" in lines[0]
    assert "3.00 of 400 ms  ok" in lines[0]
    assert "#" in lines[1]
