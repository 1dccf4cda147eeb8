"""CreateJob: once a key, priced, paid for, or nothing."""

import asyncio
from collections.abc import Callable
from decimal import Decimal
from typing import cast

import pytest
from grpc import StatusCode

from hourglass.jobs.v1 import admin_service_pb2 as admin_pb
from hourglass.jobs.v1 import job_pb2
from hourglass.jobs.v1 import jobs_service_pb2 as pb
from jobs_store.idempotency import DEFAULTS, HASH_VERSION
from servicekit.wire_money import amount_of, money_of
from tests.jobs import MODEL, TENANT, Jobs, failure, message, of, seconds, spec

pytestmark = pytest.mark.every_postgres


async def test_a_job_is_queued_with_its_worst_case_reserved(jobs: Jobs) -> None:
    answer = await jobs.create("k1", labels={"team": "search"})
    job = answer.job
    assert (job.state, job.state_cause) == (job_pb2.JOB_STATE_QUEUED, "CREATED")
    assert (job.model, job.principal, dict(job.labels)) == (MODEL, "ann", {"team": "search"})
    assert job.charge.price_basis == job_pb2.PRICE_BASIS_LIVE
    assert job.charge.reserved_amount == job.charge.quoted_amount
    assert amount_of(job.charge.reserved_amount) > 0
    assert answer.replayed is False
    assert answer.key_expire_time.seconds > job.create_time.seconds
    funds = (await jobs.admin.GetTenant(admin_pb.GetTenantRequest(tenant_id=TENANT))).tenant.funds
    assert amount_of(funds.reserved_amount) == amount_of(job.charge.reserved_amount)
    assert amount_of(funds.available_amount) == Decimal(10) - amount_of(job.charge.reserved_amount)


async def test_what_the_create_answers_is_what_a_get_reads(jobs: Jobs) -> None:
    answer = await jobs.create("k1", labels={"a": "1"}, priority=3)
    read = await jobs.jobs.GetJob(pb.GetJobRequest(job_id=answer.job.job_id), metadata=of(TENANT))
    assert read.job == answer.job


@pytest.mark.scenario("I2")
async def test_the_same_key_and_spec_answer_with_the_job_as_it_is(jobs: Jobs) -> None:
    first = await jobs.create("k1")
    await jobs.jobs.CancelJob(pb.CancelJobRequest(job_id=first.job.job_id), metadata=of(TENANT))
    again = await jobs.create("k1")
    assert (again.replayed, again.job.job_id) == (True, first.job.job_id)
    assert again.job.state == job_pb2.JOB_STATE_CANCELLED
    assert again.key_expire_time == first.key_expire_time


@pytest.mark.scenario("I3")
async def test_a_spelled_out_default_an_order_and_a_quote_do_not_make_another_spec(jobs: Jobs) -> None:
    first = await jobs.create("k1", labels={"a": "1", "b": "2"})
    again = await jobs.create(
        "k1",
        labels={"b": "2", "a": "1"},
        max_output_token_count=1024,
        max_attempt_count=3,
        attempt_timeout_duration=seconds(90),
        queue_timeout_duration=seconds(86400),
        priority=0,
        sampling=job_pb2.SamplingOptions(),
        quote_id="01890000-0000-7000-8000-000000000000",
    )
    assert (again.replayed, again.job.job_id) == (True, first.job.job_id)


@pytest.fixture
def next_release(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Deploys a release whose default of max_output_token_count is another one."""

    def deploy() -> None:
        changed = {**DEFAULTS[HASH_VERSION], "max_output_tokens": 2048}
        monkeypatch.setitem(cast("dict[int, object]", DEFAULTS), HASH_VERSION + 1, changed)
        for module in ("spec", "new_job"):
            monkeypatch.setattr(f"jobs_service.domain.{module}.HASH_VERSION", HASH_VERSION + 1)

    return deploy


@pytest.mark.scenario("I3")
async def test_after_a_default_changed_in_a_release_an_old_key_means_what_it_meant(
    jobs: Jobs, next_release: Callable[[], None]
) -> None:
    """It is compared under the defaults of the release that made it, left out or spelled out."""
    first = await jobs.create("k1")
    next_release()
    left_out = await jobs.create("k1")
    spelled_out = await jobs.create("k1", max_output_token_count=1024)
    for again in (left_out, spelled_out):
        assert (True, first.job.job_id) == (again.replayed, again.job.job_id)
    refused = await failure(jobs.create("k1", max_output_token_count=2048))
    assert "IDEMPOTENCY_KEY_REUSED" == refused.reason
    new = await jobs.create("k2")
    again = await jobs.create("k2", max_output_token_count=2048)
    assert (True, new.job.job_id) == (again.replayed, again.job.job_id)
    assert amount_of(new.job.charge.reserved_amount) > amount_of(first.job.charge.reserved_amount)


@pytest.mark.scenario("I3")
async def test_a_key_of_a_newer_release_is_left_to_servers_that_can_compare_it(
    jobs: Jobs, next_release: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While releases overlap, or after one was taken back."""
    next_release()
    await jobs.create("k1")
    monkeypatch.undo()
    refused = await failure(jobs.create("k1"))
    assert (StatusCode.UNAVAILABLE, "NEWER_RELEASE_NEEDED") == refused.kind
    assert 1 == await jobs.count("job_facts")


@pytest.mark.scenario("I3")
async def test_the_same_key_with_another_spec_is_refused_and_costs_nothing(jobs: Jobs) -> None:
    first = await jobs.create("k1")
    refused = await failure(jobs.create("k1", text="Something else."))
    assert refused.kind == (StatusCode.ALREADY_EXISTS, "IDEMPOTENCY_KEY_REUSED")
    assert refused.metadata["job_id"] == first.job.job_id
    assert await jobs.count("job_facts") == 1
    assert await jobs.count("reservations") == 1


@pytest.mark.scenario("I1")
async def test_fifty_creates_at_once_with_one_key_make_one_job(jobs: Jobs) -> None:
    answers = await asyncio.gather(*(jobs.create("k1", timeout=20) for _ in range(50)))
    assert len({answer.job.job_id for answer in answers}) == 1
    assert sum(not answer.replayed for answer in answers) == 1
    for table in ("job_facts", "jobs", "reservations", "idempotency_keys", "job_payloads"):
        assert await jobs.count(table) == 1


@pytest.mark.scenario("I4")
async def test_two_tenants_with_one_key_have_two_jobs(jobs: Jobs) -> None:
    await jobs.fund("other", Decimal(1))
    ours, theirs = await jobs.create("k1"), await jobs.create("k1", tenant="other")
    assert ours.job.job_id != theirs.job.job_id
    assert not theirs.replayed


@pytest.mark.scenario("B11")
async def test_a_known_key_is_answered_before_price_and_funds_are_looked_at(jobs: Jobs) -> None:
    first = await jobs.create("k1")
    await jobs.sql("UPDATE hourglass.tenant_funds SET available = 0, funded = reserved + captured")
    again = await jobs.jobs.CreateJob(
        pb.CreateJobRequest(idempotency_key="k1", spec=spec()), metadata=of(TENANT)
    )
    assert again.job.job_id == first.job.job_id


async def test_without_funds_nothing_is_created(jobs: Jobs) -> None:
    await jobs.fund("poor", Decimal(0))
    refused = await failure(jobs.create("k1", tenant="poor"))
    assert refused.kind == (StatusCode.RESOURCE_EXHAUSTED, "INSUFFICIENT_FUNDS")
    assert refused.metadata["available"] == "0.000000000"
    for table in ("jobs", "job_facts", "idempotency_keys", "reservations", "job_events"):
        assert await jobs.count(table) == 0


@pytest.mark.scenario("M1")
async def test_funds_for_three_jobs_make_three_of_fifty(jobs: Jobs) -> None:
    worst = amount_of((await jobs.create("probe")).job.charge.reserved_amount)
    await jobs.fund("three", 3 * worst)
    results = await asyncio.gather(
        *(jobs.create(f"k{number}", tenant="three", timeout=20) for number in range(50)),
        return_exceptions=True,
    )
    assert sum(isinstance(result, pb.CreateJobResponse) for result in results) == 3


async def test_a_tenant_that_does_not_exist_creates_nothing(jobs: Jobs) -> None:
    refused = await failure(jobs.create("k1", tenant="nobody"))
    assert refused.kind == (StatusCode.NOT_FOUND, "TENANT_NOT_FOUND")
    assert await jobs.count("idempotency_keys") == 0


async def test_everything_that_is_wrong_is_told_at_once(jobs: Jobs) -> None:
    bad = job_pb2.JobSpec(
        messages=[message(), job_pb2.Message(role=job_pb2.ROLE_USER), job_pb2.Message(content="a\0b")],
        max_output_token_count=0,
        sampling=job_pb2.SamplingOptions(temperature=3, top_p=0, stop_sequences=["", "ok"]),
        max_charge=money_of(Decimal(-1)),
        attempt_timeout_duration=seconds(0),
        max_attempt_count=21,
        priority=101,
        labels={"UPPER": "x"},
    )
    refused = await failure(
        jobs.jobs.CreateJob(pb.CreateJobRequest(spec=bad, quote_id="no-uuid"), metadata=of(TENANT))
    )
    assert refused.kind == (StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT")
    assert set(refused.violations) == {
        "idempotency_key",
        "quote_id",
        "spec.model",
        "spec.messages[1].content",
        "spec.messages[2].role",
        "spec.messages[2].content",
        "spec.max_output_token_count",
        "spec.sampling.temperature",
        "spec.sampling.top_p",
        "spec.sampling.stop_sequences[0]",
        "spec.max_charge",
        "spec.attempt_timeout_duration",
        "spec.max_attempt_count",
        "spec.priority",
        "spec.labels['UPPER']",
    }


async def test_a_payload_above_the_limit_is_refused_with_both_sizes(jobs: Jobs) -> None:
    refused = await failure(jobs.create("k1", text="ä" * 600_000))
    assert "1048576" in refused.violations["spec.messages"]
    assert "1200000" in refused.violations["spec.messages"]


async def test_a_request_without_a_spec_says_so(jobs: Jobs) -> None:
    refused = await failure(jobs.jobs.CreateJob(pb.CreateJobRequest(), metadata=of(TENANT)))
    assert set(refused.violations) == {"idempotency_key", "spec"}


async def test_an_unknown_model_is_not_found_with_the_nearest_names(jobs: Jobs) -> None:
    refused = await failure(jobs.create("k1", model="simulated-fasd"))
    assert refused.kind == (StatusCode.NOT_FOUND, "UNKNOWN_MODEL")
    assert MODEL in refused.metadata["nearest"]
    assert await jobs.count("idempotency_keys") == 0


async def test_a_worst_case_above_max_charge_is_refused(jobs: Jobs) -> None:
    refused = await failure(jobs.create("k1", max_charge=money_of(Decimal("1e-9"))))
    assert refused.kind == (StatusCode.FAILED_PRECONDITION, "MAX_CHARGE_TOO_LOW")
    assert Decimal(refused.metadata["required"]) > Decimal("1e-9")
    assert await jobs.count("idempotency_keys") == 0


async def test_a_cost_limit_that_covers_no_attempt_is_refused(jobs: Jobs) -> None:
    refused = await failure(jobs.create("k1", provider_cost_limit=money_of(Decimal("1e-9"))))
    assert set(refused.violations) == {"spec.provider_cost_limit"}


async def test_the_spec_is_read_back_with_its_defaults_filled_in(jobs: Jobs) -> None:
    created = await jobs.create("k1", sampling=job_pb2.SamplingOptions(temperature=0.5, seed=7))
    request = pb.GetJobRequest(job_id=created.job.job_id, include_content=True, include_attempts=True)
    job = (await jobs.jobs.GetJob(request, metadata=of(TENANT))).job
    assert list(job.spec.messages) == [message()]
    assert job.spec.sampling == job_pb2.SamplingOptions(temperature=0.5, seed=7)
    assert job.spec.max_output_token_count == 1024
    assert job.spec.attempt_timeout_duration == seconds(90)
    assert job.spec.unknown_outcome_policy == job_pb2.UNKNOWN_OUTCOME_POLICY_RETRY
    assert [reservation.number for reservation in job.charge.reservations] == [1]
    assert "GetPrice" in {spend.method for spend in job.create_ledger.spends}


async def test_a_dear_job_of_unknown_outcome_is_held_unless_the_caller_says_otherwise(jobs: Jobs) -> None:
    created = await jobs.create("k1", max_output_token_count=100_000)
    request = pb.GetJobRequest(job_id=created.job.job_id, include_content=True)
    job = (await jobs.jobs.GetJob(request, metadata=of(TENANT))).job
    assert job.spec.unknown_outcome_policy == job_pb2.UNKNOWN_OUTCOME_POLICY_HOLD


async def test_the_answer_says_where_the_deadline_went(jobs: Jobs) -> None:
    call = jobs.jobs.CreateJob(
        pb.CreateJobRequest(idempotency_key="k1", spec=spec()), metadata=of(TENANT), timeout=2
    )
    await call
    ledger = dict(await call.trailing_metadata())["budget-ledger"]
    assert [part.split()[0] for part in ledger.split("; ")] == [
        "postgres/find_idempotency_key",
        "pricing/GetPrice",
        "postgres/create_job",
    ]
