"""Admission is set by an operator, and can be turned off."""

import pytest
from pydantic_settings import SettingsConfigDict

from servicekit.admission_settings import AdmittingServerSettings
from servicekit.settings import SettingsError


class Example(AdmittingServerSettings):
    model_config = SettingsConfigDict(env_prefix="EXAMPLE_")


def test_a_flag_turns_admission_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Example.load().admission_control() is not None
    monkeypatch.setenv("EXAMPLE_ADMISSION", "off")
    assert Example.load().admission_control() is None


def test_the_bounds_of_the_limit_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXAMPLE_ADMISSION_INITIAL", "17")

    control = Example.load().admission_control()

    assert control is not None
    assert 17 == control.adaptive.limit


@pytest.mark.parametrize(
    ("name", "value"),
    [("MINIMUM", "0"), ("MINIMUM", "33"), ("MAXIMUM", "31"), ("WAITING", "0"), ("LOOK_UPS", "-1")],
)
def test_limits_that_make_no_sense_are_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"EXAMPLE_ADMISSION_{name}", value)

    with pytest.raises(SettingsError, match=r"(?i)admission_"):
        Example.load()
