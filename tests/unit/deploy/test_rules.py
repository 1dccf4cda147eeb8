"""Recording rules, alerts, dashboards and the runbook belong together; promtool tries each alert."""

import re
from typing import Any

import click
import pytest
import yaml

from jobsctl.commands.root import root
from tests import prometheus, promql

RUNBOOK = promql.PROJECT / "docs" / "runbook"
SECTIONS = ["What it means", "How to look", "What to do"]
with_promtool = pytest.mark.skipif(
    not prometheus.installed(),
    reason=f"NO RULE IS LOADED AND NO ALERT IS TRIED: {prometheus.HOW_TO_INSTALL}",
)


def test_every_alert_names_its_page_and_every_page_has_its_alert() -> None:
    pages = {f"docs/runbook/{page.name}" for page in RUNBOOK.glob("*.md")} - {"docs/runbook/README.md"}
    assert pages == {alert["annotations"]["runbook"] for alert in promql.alerts().values()}


@pytest.mark.parametrize("name", promql.alerts())
def test_a_page_says_what_an_alert_means_how_to_look_and_what_to_do(name: str) -> None:
    page = (promql.PROJECT / promql.alerts()[name]["annotations"]["runbook"]).read_text()
    assert f"# {name}\n" == page[: len(name) + 3]
    assert SECTIONS == re.findall(r"^## (.*)$", page, flags=re.MULTILINE)
    index = (RUNBOOK / "README.md").read_text()
    assert f"| {name} |" in index


@pytest.mark.parametrize("name", promql.alerts())
def test_the_jobsctl_lines_of_a_page_are_commands_that_there_are(name: str) -> None:
    page = (promql.PROJECT / promql.alerts()[name]["annotations"]["runbook"]).read_text()
    lines = re.findall(r"`jobsctl ([^`]+)`", page)
    assert lines
    for line in lines:
        command, options = _command(line.split())
        known = {option for each in command.params for option in each.opts}
        assert {word for word in options if word.startswith("--")} <= known | {"--server", "--tenant"}, line


def _command(words: list[str]) -> tuple[click.Command, list[str]]:
    command: Any = root
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), words[0])
        assert command is not None, f"jobsctl has no {words[0]}"
        words = words[1:]
    return command, words


def test_every_series_that_is_read_is_recorded_or_made() -> None:
    """That it is really exported, with these labels, tests/system/test_metrics.py sees."""
    made = {name.replace(".", "_") for name in promql.instruments()}
    for named in promql.everything_named():
        for series in named.series:
            known = series in promql.recorded() or any(series.startswith(name) for name in made)
            assert known or series.startswith(("process_", "up")), f"{named.at}: {series}"


def test_every_recorded_series_is_read_by_somebody() -> None:
    read = {series for named in promql.everything_named() for series in named.series}
    assert set() == promql.recorded().keys() - read


def test_operators_are_told_of_every_metric_and_of_no_other() -> None:
    page = (promql.PROJECT / "docs" / "operating.md").read_text()
    told = set(re.findall(r"`((?:hourglass|rpc|db)\.[a-z_.]+)`", page))
    assert promql.instruments() == told


def test_dashboards_have_their_own_names_and_numbers() -> None:
    boards = dict(promql.dashboards())
    assert len(boards) == len({board["uid"] for board in boards.values()})
    for file, board in boards.items():
        assert f"{board['uid']}.json" == file
        numbers = [panel["id"] for panel in board["panels"]]
        assert sorted(set(numbers)) == numbers


@with_promtool
def test_the_rules_and_the_configuration_are_valid() -> None:
    checked = prometheus.promtool("check", "config", "prometheus.yml")
    assert 0 == checked.returncode, checked.stderr


@with_promtool
@pytest.mark.parametrize("file", ["tests/alerts.yml", "tests/recording.yml"])
def test_every_alert_fires_when_it_should_and_not_otherwise(file: str) -> None:
    tried = prometheus.promtool("test", "rules", file)
    assert 0 == tried.returncode, tried.stdout + tried.stderr


def test_every_alert_is_tried_both_ways() -> None:
    cases = yaml.safe_load((prometheus.RULES / "tests" / "alerts.yml").read_text())["tests"]
    tried = [
        (case["alertname"], bool(case["exp_alerts"])) for test in cases for case in test["alert_rule_test"]
    ]
    assert sorted((name, fires) for name in promql.alerts() for fires in (False, True)) == sorted(tried)
