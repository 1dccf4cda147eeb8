"""Settings are read once, checked at the start, and printed without their secrets."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import Field, SecretStr, TypeAdapter, ValidationError
from pydantic_settings import SettingsConfigDict

from servicekit.redaction import redact
from servicekit.setting_types import (
    DatabaseUrl,
    HttpAddress,
    ListenAddress,
    LocalAddress,
    SecretDatabaseUrl,
)
from servicekit.settings import ServerSettings, Settings, SettingsError, load_all


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
    with pytest.raises(SettingsError, match="LISTED_NUMBERS: is no JSON"):
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


def test_what_is_no_json_hides_no_other_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    class Listed(Settings):
        names: tuple[str, ...]
        port: int

    monkeypatch.setenv("NAMES", '["a", "hunter2"')
    monkeypatch.setenv("PORT", "x")
    with pytest.raises(SettingsError) as error:
        Listed.load()

    assert {"NAMES", "PORT"} == error.value.problems.keys()
    assert error.value.problems["NAMES"].startswith("is no JSON: Expecting ',' delimiter")
    assert "hunter2" not in str(error.value)


def test_the_problems_of_two_classes_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXAMPLE_PORT", "-1")
    monkeypatch.setenv("LISTEN", "nowhere")
    with pytest.raises(SettingsError) as error:
        load_all(Example, ServerSettings)

    assert {"EXAMPLE_PORT", "EXAMPLE_TOKEN", "LISTEN"} == error.value.problems.keys()


def test_a_variable_that_names_no_setting_is_told_with_its_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXAMPLE_PROT", "1")
    monkeypatch.setenv("EXAMPLE_TOKEN_FILE", "/t")

    assert {"EXAMPLE_PROT": "EXAMPLE_PORT"} == Example.unknown()


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (ListenAddress, "nowhere", "wanted host:port or unix:/path"),
        (ListenAddress, "h:99999", "wanted host:port or unix:/path"),
        (HttpAddress, "unix:/s", "is no host:port"),
        (LocalAddress, "10.0.0.1:1", "wanted loopback"),
        (SecretDatabaseUrl, "mysql://u:hunter2@h/d", "wanted postgresql://"),
        (DatabaseUrl, "postgresql://u:hunter2@h:port/d", "its port must be a number"),
        (DatabaseUrl, "postgresql://u:hunter2@h/d?sslmode=full", "sslmode is one of disable, "),
        (DatabaseUrl, "postgresql://u:hunter2@h/d?sslrootcert=/no/ca.pem", "sslrootcert '/no/ca.pem' cannot"),
    ],
)
def test_an_address_that_cannot_be_one_is_refused(kind: Any, value: str, wanted: str) -> None:
    with pytest.raises(ValidationError) as error:
        TypeAdapter(kind).validate_python(value)

    (problem,) = error.value.errors()
    assert wanted in problem["msg"]
    assert "hunter2" not in problem["msg"]


@pytest.mark.parametrize(
    "url", ["postgresql://u:p@h1:5432,h2:5433/d", "postgres://u@[::1]:5432/d", "postgresql:///d?host=/run"]
)
def test_every_form_of_a_database_url_is_taken(url: str) -> None:
    assert url == TypeAdapter(DatabaseUrl).validate_python(url)
