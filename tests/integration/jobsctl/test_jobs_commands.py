"""`jobsctl jobs`: every command as a process against the real service."""

import json
from contextlib import AbstractAsyncContextManager

import pytest

from jobs_store.runs import Claimed
from tests.cli import Jobsctl
from tests.jobs import MODEL, Jobs
from tests.store import Store, failure_of, hold_of, open_store, time_enough

# Each command is a process that starts anew, so these tests are slow together.
pytestmark = pytest.mark.faults

NOBODY = "01a22d49-b7d7-7075-b32c-ecffb9470433"


def worker(jobs: Jobs) -> AbstractAsyncContextManager[Store]:
    """Somebody who runs jobs, as far as the store is concerned."""
    return open_store(jobs.database, pool=2)


async def claimed(store: Store, lane: str) -> Claimed:
    await store.runs.register_lanes([lane], budget=time_enough())
    (run,) = await store.claim(1, lanes=[lane])
    await store.start(run)
    return run


async def failed_job(jobs: Jobs) -> str:
    job = (await jobs.create("failed")).job
    async with worker(jobs) as store:
        await store.runs.finish([failure_of(await claimed(store, job.lane))], budget=time_enough())
    return job.job_id


async def held_job(jobs: Jobs) -> str:
    job = (await jobs.create("held")).job
    async with worker(jobs) as store:
        await store.runs.requeue([hold_of(await claimed(store, job.lane))], budget=time_enough())
    return job.job_id


async def test_a_job_is_made_from_flags_once_a_key(jobsctl: Jobsctl) -> None:
    line = ("jobs", "create", "--model", MODEL, "--prompt", "Why?", "--label", "batch=7", "--key", "k1")
    first, again = await jobsctl(*line, "-o", "json"), await jobsctl(*line, "--quiet")
    assert (0, 0) == (first.code, again.code)
    assert "JOB_STATE_QUEUED" == first.json["job"]["state"]
    assert {"batch": "7"} == first.json["job"]["labels"]
    assert f"{first.json['job']['job_id']}\n" == again.out
    assert "" == first.err


async def test_a_fresh_key_is_told_so_that_a_repeat_is_safe(jobsctl: Jobsctl) -> None:
    made = await jobsctl("jobs", "create", "--model", MODEL, "--prompt", "Why?", "-q")
    key = made.err.split()[2]
    again = await jobsctl("jobs", "create", "--model", MODEL, "--prompt", "Why?", "-q", "--key", key)
    assert made.out == again.out
    known = await jobsctl("jobs", "create", "--model", MODEL, "--prompt", "Why?", "--key", key)
    assert "the key was known" in known.err


async def test_a_job_is_made_from_a_spec_on_stdin(jobsctl: Jobsctl) -> None:
    spec = {"model": "other", "messages": [{"role": "ROLE_USER", "content": "Why?"}], "priority": 3}
    made = await jobsctl("jobs", "create", "--spec", "-", "--model", MODEL, "-q", stdin=json.dumps(spec))
    shown = await jobsctl("jobs", "get", made.out.strip(), "--content", "-o", "json")
    job = shown.json["job"]
    assert (MODEL, 3, "Why?") == (
        job["model"],
        job["spec"]["priority"],
        job["spec"]["messages"][0]["content"],
    )


async def test_a_prompt_may_come_from_stdin(jobsctl: Jobsctl) -> None:
    made = await jobsctl(
        "jobs", "create", "--model", MODEL, "--prompt", "-", "-q", stdin="Why is\nthe sky blue?"
    )
    shown = await jobsctl("jobs", "get", made.out.strip(), "--content")
    assert "user\nWhy is\nthe sky blue?\n" in shown.out


async def test_wrong_fields_are_named_one_a_line(jobsctl: Jobsctl) -> None:
    refused = await jobsctl("jobs", "create", "--prompt", "x", "--max-output-tokens", "0", "--key", "k")
    assert 1 == refused.code
    first, *fields = refused.err.splitlines()
    assert "INVALID_ARGUMENT: 2 fields are wrong" == first
    assert {"spec.model", "spec.max_output_token_count"} == {field.split(":")[0].strip() for field in fields}


async def test_a_quote_names_each_model_and_its_price(jobsctl: Jobsctl) -> None:
    quoted = await jobsctl("jobs", "quote", MODEL, "nobody-has-it", "--prompt", "Why?")
    assert 0 == quoted.code
    assert [MODEL, "OK"] == list(quoted.rows[-2][:2])
    assert ["nobody-has-it", "UNAVAILABLE", "UNKNOWN_MODEL"] == quoted.rows[-1]
    priced = await jobsctl("jobs", "quote", MODEL, "--input-tokens", "10", "-o", "json")
    assert "10" == priced.json["input_token_bound"]
    by_quote = await jobsctl(
        *("jobs", "create", "--model", MODEL, "--prompt", "Why?", "-o", "json"),
        *("--quote-id", quoted.rows[0][1].rstrip(",")),
    )
    assert "PRICE_BASIS_QUOTE" == by_quote.json["job"]["charge"]["price_basis"]


async def test_lists_are_filtered_and_go_over_pages(jobs: Jobs, jobsctl: Jobsctl) -> None:
    made = [(await jobs.create(f"k{number}")).job.job_id for number in range(4)]
    await jobsctl("jobs", "cancel", made[0])
    everything = await jobsctl("jobs", "list", "--limit", "0", "-o", "json")
    assert [*reversed(made)] == [job["job_id"] for job in everything.json["jobs"]]
    some = await jobsctl("jobs", "list", "--limit", "3", "-o", "json")
    rest = await jobsctl("jobs", "list", "--page-token", some.json["next_page_token"])
    assert [made[0], "CANCELLED", "USER_CANCEL"] == rest.rows[1][:3]
    cut = await jobsctl("jobs", "list", "--limit", "1")
    assert "--page-token " in cut.err
    queued = await jobsctl("jobs", "list", "--state", "cancelled", "--created-from", "-1h", "-o", "json")
    assert [made[0]] == [job["job_id"] for job in queued.json["jobs"]]
    none = await jobsctl("jobs", "list", "--created-before", "-1h", "-o", "json")
    assert {"jobs": [], "next_page_token": ""} == none.json


async def test_another_tenants_jobs_are_not_there(jobs: Jobs, jobsctl: Jobsctl) -> None:
    made = (await jobs.create("k1")).job.job_id
    refused = await jobsctl("jobs", "get", made, "--tenant", "acme")
    assert (1, f"JOB_NOT_FOUND: There is no job {made}.\n", "") == (refused.code, refused.err, refused.out)


async def test_a_wait_that_is_over_says_where_the_job_stands(jobs: Jobs, jobsctl: Jobsctl) -> None:
    made = (await jobs.create("k1")).job.job_id
    waited = await jobsctl("jobs", "wait", made, "--timeout", "700ms", "-o", "json")
    assert (3, "NOT_ENDED: the job is still QUEUED after 0.7 s\n") == (waited.code, waited.err)
    assert "JOB_STATE_QUEUED" == waited.json["job"]["state"]


async def test_a_cancelled_job_ends_a_wait_and_a_watch_with_1(jobs: Jobs, jobsctl: Jobsctl) -> None:
    made = (await jobs.create("k1")).job.job_id
    cancelled = await jobsctl("jobs", "cancel", made, "--reason", "asked twice", "--user", "ann")
    assert (0, f"CANCELLED job {made} is CANCELLED (USER_CANCEL)\n") == (cancelled.code, cancelled.out)
    waited, watched = await jobsctl("jobs", "wait", made), await jobsctl("jobs", "watch", made)
    for ended in (waited, watched):
        assert (1, "JOB_CANCELLED: the job ended CANCELLED, because of USER_CANCEL\n") == (
            ended.code,
            ended.err,
        )
    assert 'cancel asked    by ann: "asked twice"' in watched.out
    again = await jobsctl("jobs", "cancel", made, "-o", "json")
    assert "CANCEL_OUTCOME_ALREADY_TERMINAL" == again.json["outcome"]


async def test_a_failed_job_is_retried_once_a_request_id(jobs: Jobs, jobsctl: Jobsctl) -> None:
    made = await failed_job(jobs)
    line = ("jobs", "retry", made, "--reason", "they are back", "--request-id", "r1", "--user", "olga")
    first, again = await jobsctl(*line), await jobsctl(*line)
    assert (0, f"job {made} is QUEUED (RETRIED)\n", "") == (first.code, first.out, first.err)
    assert (0, "the request id was known: nothing changed this time\n") == (again.code, again.err)
    refused = await jobsctl("jobs", "retry", made, "--reason", "again")
    request_id, reason = refused.err.splitlines()
    assert (1, "JOB_NOT_FAILED") == (refused.code, reason.split(":")[0])
    assert request_id.startswith("request id jobsctl-")


async def test_a_held_job_is_resolved_either_way(jobs: Jobs, jobsctl: Jobsctl) -> None:
    made = await held_job(jobs)
    again = await jobsctl("jobs", "resolve", made, "retry", "--reason", "nothing was billed", "-o", "json")
    assert ("JOB_STATE_QUEUED", "RESOLVED_RETRY") == (
        again.json["job"]["state"],
        again.json["job"]["state_cause"],
    )
    refused = await jobsctl("jobs", "resolve", made, "fail", "--reason", "too late")
    assert (1, "JOB_NOT_HELD") == (refused.code, refused.err.splitlines()[1].split(":")[0])


async def test_content_is_only_erased_by_who_means_it(jobs: Jobs, jobsctl: Jobsctl) -> None:
    made = (await jobs.create("k1")).job.job_id
    await jobsctl("jobs", "cancel", made)
    unsure = await jobsctl("jobs", "erase", made, "--reason", "asked for")
    assert (2, "CONFIRMATION_NEEDED: nothing was done; it takes --yes\n") == (unsure.code, unsure.err)
    assert 0 == (await jobsctl("jobs", "erase", made, "--reason", "asked for", "--yes")).code
    shown = await jobsctl("jobs", "get", made, "--content", "-o", "json")
    assert "spec" not in shown.json["job"]
    assert shown.json["job"]["erase_time"]


async def test_the_ledger_of_a_call_is_drawn_beside_its_answer(jobs: Jobs, jobsctl: Jobsctl) -> None:
    made = (await jobs.create("k1")).job.job_id
    shown = await jobsctl("jobs", "get", made, "-o", "json", "--ledger", "--timeout", "4")
    assert made == shown.json["job"]["job_id"]
    assert "GetJob took" in shown.err
    assert "postgres/read_job" in shown.err
    refused = await jobsctl("jobs", "get", NOBODY, "--ledger")
    assert "postgres/read_job" in refused.err
    assert refused.err.endswith(f"JOB_NOT_FOUND: There is no job {NOBODY}.\n")


async def test_the_timeout_is_the_deadline_that_the_service_sees(jobs: Jobs, jobsctl: Jobsctl) -> None:
    made = (await jobs.create("k1")).job.job_id
    shown = await jobsctl("jobs", "get", made, "--ledger", "--timeout", "1")
    (headline, *_) = shown.err.splitlines()
    initial = float(headline.split(" of ")[1].split(" ms")[0])
    assert 900 < initial <= 1000
