"""Nothing is locked whose licence was not looked at, and nothing is shipped by way of exception."""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from requirements.licences import allows, locked, main, problems

RULES: Final[Mapping[str, Any]] = {
    "allowed": {"MIT": ["MIT License"], "Apache-2.0": []},
    "exceptions": {"tool": ["GPL-3.0", "only run"]},
}
NONE: Final[frozenset[str]] = frozenset()


def test_every_locked_package_stands_under_a_licence_that_is_allowed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert 0 == main(), capsys.readouterr().err


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT", True),
        ("MIT License", True),
        ("MIT; Apache-2.0", True),
        ("MIT AND Apache-2.0", True),
        ("GPL-3.0 OR MIT", True),
        ("GPL-3.0", False),
        ("MIT AND GPL-3.0", False),
        ("MIT; GPL-3.0", False),
        ("UNKNOWN", False),
        ("", False),
    ],
)
def test_one_side_of_an_or_is_enough_and_every_side_of_an_and_is_needed(licence: str, allowed: bool) -> None:
    assert allowed is allows(RULES["allowed"], licence)


def test_what_is_not_allowed_is_named() -> None:
    found = {"good": "MIT", "bad": "AGPL-3.0", "tool": "GPL-3.0"}
    assert ["bad: AGPL-3.0 is not allowed by licences.toml"] == list(problems(found, RULES, shipped=NONE))


def test_an_exception_goes_when_it_is_not_needed_and_never_covers_what_is_shipped() -> None:
    unneeded = "tool: the exception for GPL-3.0 is not needed any more"
    assert [unneeded] == list(problems({"tool": "MIT"}, RULES, shipped=NONE))
    shipped = list(problems({"tool": "GPL-3.0"}, RULES, shipped=frozenset({"tool"})))
    assert ["tool: is shipped, so no exception can be made"] == shipped


def test_everything_that_is_shipped_is_locked_for_development_too() -> None:
    assert {"grpcio", "asyncpg"} <= locked("runtime.lock") <= locked("dev.lock")
