"""Settings are read once, checked at the start, and printed without their secrets."""

from pathlib import Path

import pytest
from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import SettingsConfigDict

from servicekit.redaction import redact
from servicekit.settings import ServerSettings, Settings, SettingsError


class Example(Settings):
    model_config = SettingsConfigDict(env_prefix="EXAMPLE_")

    port: int = Field(gt=0)
    token: SecretStr
    database_url: str = "postgres://hourglass:hunter2@localhost/jobs"
    shared: str = Field(default="x", validation_alias="SHARED_NAME")


def load(monkeypatch: pytest.MonkeyPatch, **variables: str) -> Example:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return Example.load()


def test_settings_come_from_the_environment_and_cannot_change(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(monkeypatch, EXAMPLE_PORT="1", EXAMPLE_TOKEN="t", SHARED_NAME="y")

    assert (1, "t", "y") == (settings.port, settings.token.get_secret_value(), settings.shared)
    with pytest.raises(ValidationError, match="frozen"):
        settings.port = 2


def test_a_secret_can_stand_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from a file\n")
    (tmp_path / "shared").write_text("also")

    settings = load(
        monkeypatch,
        EXAMPLE_PORT="1",
        EXAMPLE_TOKEN_FILE=str(tmp_path / "token"),
        SHARED_NAME_FILE=str(tmp_path / "shared"),
    )

    assert "from a file" == settings.token.get_secret_value()
    assert "also" == settings.shared


def test_what_is_json_in_a_variable_is_json_in_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Listed(Settings):
        model_config = SettingsConfigDict(env_prefix="LISTED_")

        numbers: tuple[int, ...]

    (tmp_path / "numbers").write_text("[1, 2]\n")
    monkeypatch.setenv("LISTED_NUMBERS_FILE", str(tmp_path / "numbers"))
    assert (1, 2) == Listed.load().numbers

    (tmp_path / "numbers").write_text("[1,")
    with pytest.raises(SettingsError, match="numbers"):
        Listed.load()


def test_every_problem_is_told_at_once_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError) as error:
        load(
            monkeypatch,
            EXAMPLE_PORT="-1",
            EXAMPLE_DATABASE_URL="a",
            EXAMPLE_DATABASE_URL_FILE="b",
            SHARED_NAME_FILE=str(tmp_path / "missing"),
        )

    assert {"EXAMPLE_PORT", "EXAMPLE_TOKEN", "EXAMPLE_DATABASE_URL", "SHARED_NAME_FILE"} == set(
        error.value.problems
    )
    assert "4 settings are wrong" in str(error.value)
    assert "EXAMPLE_TOKEN: is required" in str(error.value)


def test_a_problem_never_shows_the_value_of_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError) as error:
        load(monkeypatch, EXAMPLE_PORT="hunter2", EXAMPLE_TOKEN="t")

    assert "hunter2" not in str(error.value)


def test_printed_settings_hide_secrets_and_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = load(monkeypatch, EXAMPLE_PORT="1", EXAMPLE_TOKEN="hunter3").redacted()

    assert {"port": "1", "token": "***", "shared": "x"}.items() <= printed.items()
    assert "postgres://hourglass:***@localhost/jobs" == printed["database_url"]


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("postgres://u:p@ss/w@h:1/d", "postgres://u:***@ss/w@h:1/d"),
        ("at postgresql://u:p@h and http://h/x", "at postgresql://u:***@h and http://h/x"),
        ("host=h password='a b' user=u", "host=h password=*** user=u"),
        ("nothing here: a@b", "nothing here: a@b"),
    ],
)
def test_passwords_are_taken_out_of_texts(text: str, clean: str) -> None:
    assert clean == redact(text)


def test_trusted_tenants_are_a_comma_separated_list(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ServerSettings.load().ledger_tenants is None
    monkeypatch.setenv("LEDGER_TENANTS", "ops, demo")
    assert frozenset({"ops", "demo"}) == ServerSettings.load().ledger_tenants
