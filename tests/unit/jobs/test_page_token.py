"""Page tokens: good for the list that they were made for, and for no other."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs_service.domain.page_token import FIRST_PAGE, MalformedToken, page_token, position_of
from jobs_store.identifiers import TenantId, new_job_id
from jobs_store.reading import JobFilter
from jobs_store.states import JobState

TENANT = TenantId("demo")
WANTED = JobFilter(states=[JobState.QUEUED, JobState.HELD], model="m")
LAST = new_job_id()
TOKEN = page_token(LAST, tenant=TENANT, wanted=WANTED)


def test_a_token_leads_to_its_place() -> None:
    assert position_of(TOKEN, tenant=TENANT, wanted=WANTED) == LAST


def test_no_token_is_the_first_page() -> None:
    assert position_of("", tenant=TENANT, wanted=WANTED) == FIRST_PAGE


def test_the_order_of_states_does_not_count() -> None:
    turned = replace(WANTED, states=[JobState.HELD, JobState.QUEUED])
    assert position_of(TOKEN, tenant=TENANT, wanted=turned) == LAST


@pytest.mark.parametrize(
    "other",
    [
        replace(WANTED, states=None),
        replace(WANTED, states=[JobState.QUEUED]),
        replace(WANTED, model=None),
        replace(WANTED, created_from=datetime(2026, 1, 1, tzinfo=UTC)),
        replace(WANTED, created_before=datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_token_of_other_filters_is_refused(other: JobFilter) -> None:
    with pytest.raises(MalformedToken):
        position_of(TOKEN, tenant=TENANT, wanted=other)


def test_a_token_of_another_tenant_is_refused() -> None:
    with pytest.raises(MalformedToken):
        position_of(TOKEN, tenant=TenantId("other"), wanted=WANTED)


@given(st.text())
def test_whatever_is_no_token_is_refused(text: str) -> None:
    if text:
        with pytest.raises(MalformedToken):
            position_of(text, tenant=TENANT, wanted=WANTED)
