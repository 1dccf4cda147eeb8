"""jobsctl's token comes from a file or the environment, never from a command line."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from jobsctl.commands.options import Leaf, settings_of
from jobsctl.commands.root import root
from jobsctl.settings import Settings


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """What a command of this test's own was told."""
    found: list[Settings] = []

    @click.command("look", cls=Leaf)
    @click.pass_context
    def look(ctx: click.Context) -> None:
        found.append(settings_of(ctx))

    monkeypatch.setitem(root.commands, "look", look)
    return found


def run(*arguments: str, **environment: str) -> str:
    result = CliRunner().invoke(root, [*arguments, "look"], env=environment)
    return "" if result.exit_code == 0 else result.output


def authorization(settings: Settings) -> str:
    return dict(settings.metadata).get("authorization", "")


def test_the_environment_or_a_file_gives_the_token(seen: list[Settings], tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("of-the-file\n")
    assert "" == run(JOBSCTL_TOKEN="of-the-environment")
    assert "" == run("--token-file", str(file))
    assert "" == run(JOBSCTL_TOKEN_FILE=str(file))
    assert "" == run()
    wanted = ["Bearer of-the-environment", "Bearer of-the-file", "Bearer of-the-file", ""]
    assert wanted == [authorization(settings) for settings in seen]
    assert "of-the" not in repr(seen)


def test_a_token_on_the_command_line_is_refused(seen: list[Settings]) -> None:
    told = run("--token", "s3cret")
    assert "A command line is no place for a token" in told
    assert "s3cret" not in told
    assert [] == seen


def test_a_token_goes_to_another_machine_over_tls_only(seen: list[Settings]) -> None:
    told = run("--server", "jobs.internal:50051", JOBSCTL_TOKEN="s3cret")
    assert "A token to jobs.internal:50051 takes --tls, or --plaintext-token." in told
    assert "s3cret" not in told
    assert "" == run("--server", "jobs.internal:50051", "--tls", JOBSCTL_TOKEN="s3cret")
    assert "" == run("--server", "jobs.internal:50051", "--plaintext-token", JOBSCTL_TOKEN="s3cret")


def test_a_file_without_a_token_is_named(seen: list[Settings], tmp_path: Path) -> None:
    assert "no-such-file" in run("--token-file", str(tmp_path / "no-such-file"))
