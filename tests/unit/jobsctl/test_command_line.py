"""The command line itself: what it takes, how it helps, and what it loads for that."""

import errno
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

import click
import pytest

from jobsctl.__main__ import run
from jobsctl.commands.jobs import STATES
from jobsctl.commands.options import Leaf, settings_of
from jobsctl.commands.root import root
from jobsctl.commands.values import AMOUNT, DURATION, LABEL, MOMENT
from jobsctl.exits import ExitCode
from jobsctl.settings import Output, Settings

COMMANDS = """\
bulk cancel
bulk resolve
bulk retry
completion
explain
health
jobs cancel
jobs create
jobs erase
jobs get
jobs list
jobs quote
jobs resolve
jobs retry
jobs wait
jobs watch
keys create
keys list
keys revoke
lanes list
lanes pause
lanes resume
lanes update
migrate
tenants create
tenants fund
tenants get
tenants list
tenants update
verify
workers list"""
HEAVY = ("grpc", "google", "rich", "asyncpg", "pydantic", "budget.core", "hourglass")


def commands(
    group: click.Group, prefix: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from commands(command, (*prefix, name))
        else:
            yield (*prefix, name), command


def settings_said(*arguments: str) -> Settings:
    """What a command gets when the line is typed."""
    heard: list[Settings] = []

    @click.command("probe", cls=Leaf)
    @click.pass_context
    def probe(ctx: click.Context) -> None:
        heard.append(settings_of(ctx))

    line = click.Group("jobsctl", params=root.params, commands={"probe": probe})
    line.main([*arguments], standalone_mode=False)
    return heard[0]


def test_these_are_the_commands() -> None:
    assert COMMANDS.splitlines() == [" ".join(path) for path, _ in commands(root)]


@pytest.mark.parametrize(("path", "command"), list(commands(root)), ids=str)
def test_every_command_helps_with_an_example(path: tuple[str, ...], command: click.Command) -> None:
    text = command.get_help(click.Context(command, info_name=" ".join(path)))
    assert "Example" in text
    assert f"jobsctl {' '.join(path)}" in text


@pytest.mark.parametrize("arguments", [["--help"], ["jobs", "--help"], ["jobs", "create", "--help"]])
def test_help_loads_nothing_that_it_does_not_show(arguments: list[str]) -> None:
    look = f"import sys, jobsctl.__main__ as m; m.run({arguments}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stderr.split() if name in HEAVY}
    assert set() == loaded
    assert "Usage: jobsctl" in done.stdout


def test_global_options_stand_before_a_command_or_after_it_and_the_last_counts() -> None:
    said = settings_said("--server", "a:1", "-o", "json", "probe", "--server", "b:2", "--timeout", "500ms")
    assert Settings(server="b:2", timeout=0.5, output=Output.JSON) == said


def test_the_environment_is_what_nobody_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBSCTL_SERVER", "env:1")
    monkeypatch.setenv("JOBSCTL_TENANT", "acme")
    assert ("env:1", "acme") == (settings_said("probe").server, settings_said("probe").tenant)
    assert "b:2" == settings_said("probe", "--server", "b:2").server


def test_who_calls_is_only_told_when_it_was_said() -> None:
    assert () == Settings(server="a:1").metadata
    assert (("x-tenant-id", "acme"), ("x-user-id", "olga")) == settings_said(
        "probe", "--tenant", "acme", "--user", "olga"
    ).metadata


@pytest.mark.parametrize(
    ("typed", "seconds"), [("2", 2.0), ("500ms", 0.5), ("1.5s", 1.5), ("5m", 300.0), ("24h", 86400.0)]
)
def test_durations_have_units(typed: str, seconds: float) -> None:
    assert seconds == DURATION.convert(typed, None, None)


def test_times_are_utc_or_from_now() -> None:
    assert datetime(2026, 11, 30, 12, tzinfo=UTC) == MOMENT.convert("2026-11-30T12:00:00", None, None)
    hour = MOMENT.convert("-1h", None, None) - datetime.now(UTC)
    assert timedelta(minutes=-61) < hour < timedelta(minutes=-59)


def test_amounts_are_exact() -> None:
    assert Decimal("0.000000001") == AMOUNT.convert("$0.000000001", None, None)


@pytest.mark.parametrize(
    ("kind", "typed"),
    [
        (DURATION, "soon"),
        (DURATION, "0"),
        (DURATION, "-1s"),
        (AMOUNT, "much"),
        (AMOUNT, "NaN"),
        (MOMENT, "noon"),
        (MOMENT, "+x"),
        (LABEL, "alone"),
        (LABEL, "=x"),
    ],
)
def test_what_cannot_be_read_says_what_is_wanted(kind: "click.ParamType[object]", typed: str) -> None:
    with pytest.raises(click.BadParameter, match=r"(no |not key=value)"):
        kind.convert(typed, None, None)


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing"],
        ["jobs", "get"],
        ["jobs", "retry", "x"],
        ["jobs", "list", "--state", "odd"],
        ["tenants", "update", "acme", "--reason", "x"],
        ["tenants", "update", "acme", "--keep", "beauty=1d", "--reason", "x"],
        ["tenants", "update", "acme", "--keep", "jobs=1d", "--keep-default", "--reason", "x"],
        ["bulk", "retry", "--reason", "x"],
        ["bulk", "retry", "01a22d49-b7d7-7075-b32c-ecffb9470433", "--reason", "x"],
        ["jobs", "create", "--spec", "-", "--prompt", "-"],
        ["jobs", "create", "--spec", "/nonexistent.json"],
    ],
)
def test_what_is_typed_wrongly_ends_with_2_and_calls_nobody(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ExitCode.USAGE == run(["--server", "127.0.0.1:1", *arguments])
    told = capsys.readouterr()
    assert "" == told.out
    assert "Error: " in told.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_has_a_script_for_every_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.OK == run(["completion", shell])
    assert "_JOBSCTL_COMPLETE" in capsys.readouterr().out


def offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str) -> list[str]:
    """What bash offers to put at the end of a line."""
    monkeypatch.setenv("_JOBSCTL_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - (not line.endswith(" "))))
    with pytest.raises(SystemExit):
        run([])
    return [line.removeprefix("plain,") for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("jobsctl ", sorted(root.commands)),
        ("jobsctl jobs w", ["wait", "watch"]),
        ("jobsctl jobs list --state ", list(STATES)),
        ("jobsctl jobs list --state f", ["failed"]),
        ("jobsctl -o ", ["table", "json"]),
        ("jobsctl jobs get --con", ["--content"]),
        ("jobsctl keys create acme batch --scope read", ["read", "read-content"]),
        ("jobsctl tenants update acme --keep e", ["events="]),
        ("jobsctl completion ", ["bash", "zsh", "fish"]),
    ],
)
def test_completion_offers_commands_options_and_their_values(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str, wanted: list[str]
) -> None:
    assert wanted == offered(monkeypatch, capsys, line)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_comes_by_the_usual_variable_too(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["completion", shell])
    told = capsys.readouterr().out
    monkeypatch.setenv("_JOBSCTL_COMPLETE", f"{shell}_source")
    with pytest.raises(SystemExit):
        run([])
    assert told.rstrip() == capsys.readouterr().out.rstrip()


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.OK == run(["--version"])
    assert f"jobsctl {version('hourglass')}\n" == capsys.readouterr().out


def test_an_answer_that_cannot_be_written_is_said_and_is_no_fault_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(root, "main", full)
    assert ExitCode.REFUSED == run([])
    assert "CANNOT_WRITE: No space left on device\n" == capsys.readouterr().err


def test_a_token_comes_from_a_file_or_the_environment_and_is_never_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("hgk_1\n")
    from_file = settings_said("probe", "--token-file", str(tmp_path / "key"))
    assert (("authorization", "Bearer hgk_1"),) == from_file.metadata
    assert "hgk_1" not in repr(from_file)
    monkeypatch.setenv("JOBSCTL_TOKEN", "hgk_2")
    assert (("authorization", "Bearer hgk_2"),) == settings_said("probe").metadata
    assert "--token " not in root.get_help(click.Context(root))


def test_a_fault_of_ours_is_a_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_arguments: object, **_options: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(root, "main", broken)
    assert ExitCode.REFUSED == run([])
    assert "INTERNAL: RuntimeError: boom\n" == capsys.readouterr().err
