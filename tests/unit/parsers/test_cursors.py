"""Cursors and tokens: they lead back to where they came from, and nothing else is taken for one."""

from datetime import datetime
from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jobs_service.domain.page_token import MalformedToken, page_token, position_of
from jobs_store.identifiers import JobId, TenantId, epoch_of, number_of, sequence
from jobs_store.reading import JobFilter
from jobs_store.states import JobState
from servicekit.identity.api_key_text import new_api_key, parsed_api_key

EPOCHS = st.integers(1, 2**31 - 1)
NUMBERS = st.integers(0, 2**32 - 1)
TENANTS = st.from_regex(r"[a-z0-9-]{1,63}", fullmatch=True).map(TenantId)
MOMENTS = st.none() | st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)).map(datetime.astimezone)  # noqa: DTZ001
FILTERS = st.builds(
    JobFilter,
    states=st.none() | st.lists(st.sampled_from(JobState), min_size=1, unique=True),
    model=st.none() | st.text(min_size=1, max_size=20),
    created_from=MOMENTS,
    created_before=MOMENTS,
)
JOBS = st.uuids().map(JobId)


@given(EPOCHS, NUMBERS)
def test_a_sequence_is_its_epoch_and_its_number(epoch: int, number: int) -> None:
    made = sequence(epoch, number)
    assert (epoch, number) == (epoch_of(made), number_of(made))
    assert 0 < made < 2**63


@given(EPOCHS, NUMBERS, EPOCHS, NUMBERS)
def test_sequences_have_the_order_of_their_events(
    epoch: int, number: int, other_epoch: int, other_number: int
) -> None:
    pairs = [(epoch, number), (other_epoch, other_number)]
    assert sorted(pairs) == sorted(pairs, key=lambda pair: sequence(*pair))


@given(JOBS, TENANTS, FILTERS)
def test_a_page_token_leads_back_to_its_job(job: JobId, tenant: TenantId, wanted: JobFilter) -> None:
    assert job == position_of(page_token(job, tenant=tenant, wanted=wanted), tenant=tenant, wanted=wanted)


@given(JOBS, TENANTS, TENANTS, FILTERS, FILTERS)
def test_a_page_token_of_another_tenant_or_list_leads_nowhere(
    job: JobId, tenant: TenantId, other: TenantId, wanted: JobFilter, others: JobFilter
) -> None:
    token = page_token(job, tenant=tenant, wanted=wanted)
    assume(tenant != other)
    for asker, asked in ((other, wanted), (other, others)):
        with pytest.raises(MalformedToken):
            position_of(token, tenant=asker, wanted=asked)


@given(st.data())
def test_a_page_token_with_a_changed_byte_is_refused(data: st.DataObject) -> None:
    tenant, wanted = TenantId("demo"), JobFilter()
    token = page_token(JobId(UUID(int=7)), tenant=tenant, wanted=wanted)
    place = data.draw(st.integers(0, len(token) - 2))  # the last character has bits that nothing stands in
    letter = data.draw(st.sampled_from("ABCxyz019-_").filter(lambda letter: letter != token[place]))
    with pytest.raises(MalformedToken):
        position_of(token[:place] + letter + token[place + 1 :], tenant=tenant, wanted=wanted)


@given(TENANTS)
def test_an_api_key_names_its_tenant(tenant: TenantId) -> None:
    made = new_api_key(tenant)
    assert made == parsed_api_key(made.text)
    assert tenant == made.tenant
    assert 32 == len(made.digest)


@given(st.data())
def test_a_mistyped_api_key_is_none(data: st.DataObject) -> None:
    text = new_api_key("demo").text
    place = data.draw(st.integers(0, len(text) - 1))
    letter = data.draw(st.characters(codec="ascii").filter(lambda letter: letter != text[place]))
    assert parsed_api_key(text[:place] + letter + text[place + 1 :]) is None


@given(st.text())
def test_whatever_is_no_api_key_is_none(text: str) -> None:
    assert parsed_api_key(text) is None
