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


@pytest.mark.parametrize(("minimum", "maximum", "initial"), [(8, 512, 64), (70, 90, 70), (2, 7, 7)])
def test_the_bounds_of_the_limit_are_settings(
    monkeypatch: pytest.MonkeyPatch, minimum: int, maximum: int, initial: int
) -> None:
    monkeypatch.setenv("EXAMPLE_ADMISSION_MINIMUM", str(minimum))
    monkeypatch.setenv("EXAMPLE_ADMISSION_MAXIMUM", str(maximum))

    control = Example.load().admission_control()

    assert control is not None
    assert initial == control.adaptive.limit


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("MINIMUM", "0", "MINIMUM"),
        ("MINIMUM", "513", "MAXIMUM"),
        ("MAXIMUM", "7", "MAXIMUM"),
        ("WAITING", "0", "WAITING"),
        ("LOOK_UPS", "-1", "LOOK_UPS"),
    ],
)
def test_limits_that_make_no_sense_are_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, named: str
) -> None:
    monkeypatch.setenv(f"EXAMPLE_ADMISSION_{name}", value)

    with pytest.raises(SettingsError) as caught:
        Example.load()

    assert [f"EXAMPLE_ADMISSION_{named}"] == list(caught.value.problems)
