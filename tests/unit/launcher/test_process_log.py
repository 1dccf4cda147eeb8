"""What the end of a child's log looks like to a reader."""

import json
from pathlib import Path

from launcher.process_log import TAIL_LINES, ProcessLog, readable


def test_a_json_line_is_read_as_text_with_the_last_line_of_its_exception() -> None:
    line = {
        "level": "critical",
        "event": "the process ends with an error",
        "error": "CannotListen",
        "exception": "Traceback\n  ...\nservicekit.listen.CannotListen: cannot listen on 1.2.3.4:5: in use",
        "port": 5,
        "timestamp": "2026",
    }
    assert readable(json.dumps(line)) == (
        "critical the process ends with an error "
        "error=CannotListen: cannot listen on 1.2.3.4:5: in use port=5"
    )


def test_other_lines_stay_as_they_are() -> None:
    assert readable("Traceback (most recent call last):") == "Traceback (most recent call last):"
    assert readable("[1, 2]") == "[1, 2]"
    assert readable('{"a": 1}') == '{"a": 1}'


def test_long_lines_are_cut() -> None:
    assert len(readable("x" * 10_000)) == 400


def test_the_tail_is_bounded_and_says_where_the_rest_is(tmp_path: Path) -> None:
    log = ProcessLog(tmp_path / "logs" / "worker.log")
    for number in range(TAIL_LINES + 5):
        log.write(f"line {number}")
    log.close()
    assert (f"line {TAIL_LINES + 4}", f"all of it: {log.path}") == log.tail[-2:]
    assert log.tail[0] == "line 5"
    assert log.path.read_text().startswith("line 0\n")
