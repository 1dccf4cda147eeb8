"""What docs/budget.md shows is what the code does."""

import re
from pathlib import Path

import pytest

from budget.ledger import parse_text
from budget.policy import Enforcement
from jobs_service.policies import POLICIES
from jobs_service.settings import JobsSettings
from servicekit.admission import Refusal
from servicekit.admission_settings import AdmittingServerSettings
from servicekit.identity.settings import IdentitySettings
from servicekit.methods import Admission
from servicekit.settings import SettingsError

PAGE = (Path(__file__).parents[2] / "docs" / "budget.md").read_text()


def shown_setting() -> str:
    found = re.search(r"HOURGLASS_JOBS_POLICIES='(.*?)'", PAGE, re.DOTALL)
    assert found
    return found[1]


def test_the_shown_policies_are_accepted_by_the_job_process() -> None:
    book = POLICIES.overridden(shown_setting())

    assert 0.3 == book.of("pricing", "GetPrice").limit
    assert Enforcement.OBSERVE is book.of("postgres", "read_job").enforcement
    assert Enforcement.ENFORCE is book.of("postgres", "create_job").enforcement


def test_the_shown_problems_are_those_that_the_job_process_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOURGLASS_JOBS_DATABASE_URL", "postgres://localhost/x")
    monkeypatch.setenv(
        "HOURGLASS_JOBS_POLICIES", '{"pricing.GetPrise": {"limit": 1}, "postgres": {"limit": 0}}'
    )

    with pytest.raises(SettingsError) as caught:
        JobsSettings.load()

    told = "".join(f"    {line}\n" for line in str(caught.value).splitlines())
    assert told in PAGE


def test_the_shown_ledgers_can_be_read() -> None:
    (line,) = re.findall(r"^    (postgres/find_idempotency_key .*)$", PAGE, re.MULTILINE)
    (observed,) = re.findall(r"`(pricing/GetPrice \S+ of \S+ ok~)`", PAGE)

    assert [1, 1, 2, 1] == [spend.attempt for spend in parse_text(line).spends]
    assert [True] == [spend.would_cut for spend in parse_text(observed).spends]


def test_every_kind_of_admission_and_every_refusal_is_explained() -> None:
    for name in (*Admission, *Refusal):
        assert f"| `{name}` |" in PAGE


def test_every_setting_of_admission_is_listed_with_its_default() -> None:
    for name in AdmittingServerSettings.model_fields.keys() - IdentitySettings.model_fields.keys():
        default = str(AdmittingServerSettings.model_fields[name].default).lower()
        (row,) = re.findall(rf"^\| .*`{name.upper()}`.*$", PAGE, re.MULTILINE)
        assert default in row
