"""docs/config.md is what the settings classes say."""

from pathlib import Path

import pytest
from pydantic_settings import SettingsConfigDict

from launcher.settings_page import PROCESSES, as_markdown, meanings
from servicekit.settings import ServerSettings, Settings

PAGE = Path(__file__).parents[3] / "docs" / "config.md"


def test_the_page_is_up_to_date() -> None:
    assert as_markdown() == PAGE.read_text(), "run make config"


@pytest.mark.parametrize("settings", [each for _, _, each in PROCESSES])
def test_every_setting_is_described_and_listed(settings: type[Settings]) -> None:
    told, page = meanings(settings), PAGE.read_text()
    for name in settings.model_fields:
        assert told[name]
        assert f"| `{settings.variable_of(name)}` |" in page


def test_a_class_may_say_something_else_than_its_base() -> None:
    class Narrower(ServerSettings):
        """One server.

        drain_grace: how long calls go on. listen: where.
        """

        model_config = SettingsConfigDict(env_prefix="X_")

    told = meanings(Narrower)
    assert "how long calls go on." == told["drain_grace"]
    assert "where." == told["listen"]
    assert meanings(ServerSettings)["settle"] == told["settle"]


def test_no_secret_and_no_path_of_a_machine_stands_on_the_page() -> None:
    page = PAGE.read_text()
    assert str(Path(__file__).parents[3]) not in page
    assert "**********" not in page
