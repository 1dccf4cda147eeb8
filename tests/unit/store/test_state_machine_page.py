"""The drawing of the states says what the table of transitions says."""

import re
from pathlib import Path

import pytest

from jobs_store.states import Cause, JobState
from jobs_store.transitions import TRANSITIONS, allowed

PROJECT = Path(__file__).resolve().parents[3]
PAGE = (PROJECT / "docs" / "state-machine.md").read_text()
SCHEMA = (PROJECT / "migrations" / "sql" / "0004_jobs.sql").read_text()
ARROW = re.compile(r"^    (\S+) --> (\S+): (\w+) (.+)$", flags=re.MULTILINE)


def test_every_arrow_of_the_table_is_drawn_with_its_cause_and_no_other() -> None:
    drawn = [
        (source, target, actor, cause)
        for source, target, actor, causes in ARROW.findall(PAGE)
        for cause in causes.split(", ")
    ]
    table = {(t.source or "[*]", t.target, t.actor, t.cause) for t in TRANSITIONS}
    assert table == set(drawn)
    assert len(TRANSITIONS) == len(drawn)


@pytest.mark.parametrize("constraint", ["jobs_state_check", "finished_jobs_state_check"])
def test_the_constraints_know_the_states_of_the_code(constraint: str) -> None:
    found = re.search(rf"CONSTRAINT {constraint} CHECK \(state IN \((.*?)\)\)", SCHEMA)
    assert found is not None
    finished = constraint.startswith("finished")
    wanted = {state for state in JobState if state.terminal is finished}
    assert wanted == {JobState(name) for name in re.findall(r"'(\w+)'", found[1])}


def test_every_state_is_reached_and_every_cause_is_used() -> None:
    assert set(JobState) == {transition.target for transition in TRANSITIONS}
    assert set(Cause) == {transition.cause for transition in TRANSITIONS}


def test_only_an_operator_leaves_a_terminal_state() -> None:
    leaving = {(t.source, t.actor) for t in TRANSITIONS if t.source is not None and t.source.terminal}
    assert {("FAILED", "operator")} == leaving


def test_an_arrow_that_is_not_in_the_table_is_not_allowed() -> None:
    assert allowed(JobState.RUNNING, JobState.SUCCEEDED, Cause.ACCEPTED)
    assert not allowed(JobState.QUEUED, JobState.SUCCEEDED, Cause.ACCEPTED)
