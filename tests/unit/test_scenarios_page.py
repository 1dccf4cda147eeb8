"""docs/scenarios.md says which test plays which scenario, and says the truth."""

import tomllib

from tests.scenarios.page import PAGE, SOURCE, held, written


def test_the_page_is_what_the_tests_say() -> None:
    assert written() == PAGE.read_text(), "make scenarios"


def test_every_marker_names_a_scenario() -> None:
    known = tomllib.loads(SOURCE.read_text())["promises"].keys()
    assert {} == {test.name: test.letters for test in held() if not set(test.letters) <= known}


def test_every_scenario_belongs_to_a_group_and_what_is_open_to_a_scenario() -> None:
    source = tomllib.loads(SOURCE.read_text())
    letters = source["promises"].keys()
    assert source["groups"].keys() == {letter.rstrip("0123456789") for letter in letters}
    assert source["open"].keys() <= letters


def test_the_scenarios_of_budgets_are_all_held() -> None:
    wanted = {*(f"B{number}" for number in range(1, 13)), "O6", "O7", "U1", "U2", "X6", "M11"}
    assert wanted <= {letter for test in held() for letter in test.letters}
