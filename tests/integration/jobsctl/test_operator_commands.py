"""Tenants, lanes, workers, many jobs at once, invariants, health: as processes against the real service."""

import pytest

from migrations.files import load
from servicekit.health import LIVENESS
from tests.cli import Jobsctl
from tests.integration.jobsctl.test_jobs_commands import failed_job, held_job
from tests.jobs import TENANT, Jobs
from tests.postgres import TestDatabase

# Each command is a process that starts anew, so these tests are slow together.
pytestmark = pytest.mark.faults

LANE = "simulated/simulated-fast"
BECAUSE = ("--reason", "a test", "--user", "olga")


async def test_a_tenant_is_made_changed_and_funded_once_a_request_id(jobsctl: Jobsctl) -> None:
    made = await jobsctl(
        "tenants", "create", "acme", "--max-running", "3", "--request-rate", "7.5", *BECAUSE, "-o", "json"
    )
    assert ("acme", 3) == (
        made.json["tenant"]["tenant_id"],
        made.json["tenant"]["limits"]["max_running_count"],
    )
    fund = ("tenants", "fund", "acme", "25", *BECAUSE, "--request-id", "f1")
    first, again = await jobsctl(*fund), await jobsctl(*fund)
    assert ["funded", "$25.000000000"] in first.rows
    assert ["funded", "$25.000000000"] in again.rows
    assert "nothing changed this time" in again.err
    taken = await jobsctl("tenants", "fund", "acme", "-5.5", *BECAUSE)
    assert ["available", "$19.500000000"] in taken.rows
    updated = await jobsctl("tenants", "update", "acme", "--weight", "7", "--display-name", "Acme", *BECAUSE)
    assert ["weight", "7"] in updated.rows
    assert ["running", "0", "of", "3"] in updated.rows
    assert ["rate", "7.5", "requests", "a", "second"] in updated.rows
    keeps = ("--keep", "payload=1d", "--keep", "events=36h")
    updated = await jobsctl("tenants", "update", "acme", *keeps, *BECAUSE)
    assert ["keeps", "payload", "1", "d,", "events", "1", "d", "12", "h"] in updated.rows
    shown = await jobsctl("tenants", "get", "acme")
    assert shown.out == updated.out
    default = await jobsctl("tenants", "update", "acme", "--keep-default", *BECAUSE)
    assert "keeps" not in default.out
    listed = await jobsctl("tenants", "list")
    assert ["acme", TENANT] == [row[0] for row in listed.rows[1:]]


async def test_refusals_about_tenants_have_their_reasons(jobsctl: Jobsctl) -> None:
    unknown = await jobsctl("tenants", "get", "nobody")
    assert (1, "TENANT_NOT_FOUND") == (unknown.code, unknown.err.split(":")[0])
    low = await jobsctl("tenants", "fund", TENANT, "-1000", *BECAUSE, "--request-id", "f1")
    assert (1, "FUNDS_TOO_LOW") == (low.code, low.err.split(":")[0])


async def test_lanes_are_limited_paused_and_resumed(jobs: Jobs, jobsctl: Jobsctl) -> None:
    await failed_job(jobs)
    await jobs.create("waits")
    paused = await jobsctl("lanes", "pause", LANE, *BECAUSE)
    assert ["state", "PAUSED", "(OPERATOR_PAUSE)"] in paused.rows
    limited = await jobsctl("lanes", "update", LANE, "--max-running", "2", *BECAUSE, "-o", "json")
    assert 2 == limited.json["lane"]["max_running_count"]
    listed = await jobsctl("lanes", "list", "-o", "json")
    (lane,) = [lane for lane in listed.json["lanes"] if lane["lane"] == LANE]
    assert ("LANE_STATE_PAUSED", "1") == (lane["state"], lane["queued_count"])
    resumed = await jobsctl("lanes", "resume", LANE, *BECAUSE)
    assert ["state", "OPEN"] in resumed.rows
    shown = await jobsctl("lanes", "list")
    assert LANE in [row[0] for row in shown.rows]


async def test_nobody_works_so_no_workers_are_listed(jobsctl: Jobsctl) -> None:
    listed = await jobsctl("workers", "list")
    assert (0, [["WORKER", "ADDRESS", "RUNNING", "EARLIEST", "LEASE", "ENDS"]]) == (listed.code, listed.rows)
    assert [] == (await jobsctl("workers", "list", "-o", "json")).json["workers"]


async def test_many_jobs_are_only_retried_by_who_means_it(jobs: Jobs, jobsctl: Jobsctl) -> None:
    made = await failed_job(jobs)
    line = ("bulk", "retry", "--of-tenant", TENANT, *BECAUSE)
    looked = await jobsctl(*line, "--dry-run", "-o", "json")
    assert [made] == [one["job_id"] for page in looked.json_lines for one in page["outcomes"]]
    assert (0, "would retry 1 job, 0 refused\n") == (looked.code, looked.err)
    unsure = await jobsctl(*line)
    assert (2, "CONFIRMATION_NEEDED: nothing was done; it takes --yes\n") == (unsure.code, unsure.err)
    assert made in unsure.out
    assert "FAILED" == (await jobsctl("jobs", "get", made)).rows[1][1]
    done = await jobsctl(*line, "--yes", "--request-id", "r1")
    assert (0, [TENANT, made, "QUEUED", "-"]) == (done.code, done.rows[1])
    assert done.err.endswith("retry: 1 job\n")
    again = await jobsctl(*line, "--yes", "--request-id", "r1")
    assert (0, True) == (again.code, again.err.endswith("retry: 0 jobs\n"))
    assert "nothing" not in (await jobsctl("bulk", "cancel", "--of-tenant", TENANT, *BECAUSE, "--yes")).err


async def test_many_holds_are_ended_and_refusals_are_named(jobs: Jobs, jobsctl: Jobsctl) -> None:
    held, queued = await held_job(jobs), (await jobs.create("queued")).job.job_id
    ended = await jobsctl("bulk", "resolve", "fail", held, queued, "--of-tenant", TENANT, *BECAUSE, "--yes")
    remarks = {row[1]: row[2:] for row in ended.rows[1:]}
    assert ["FAILED", "-"] == remarks[held]
    assert ["QUEUED", "JOB_NOT_HELD"] == remarks[queued]
    assert 1 == ended.code
    assert ended.err.endswith("PARTLY_REFUSED: 1 of 2 jobs were left as they are\n")


async def test_a_clean_database_verifies(jobs: Jobs, jobsctl: Jobsctl) -> None:
    await jobs.create("one")
    verified = await jobsctl("verify")
    assert (0, "") == (verified.code, verified.err)
    assert ["JOB_IN_ONE_PLACE", "1", "0"] in verified.rows
    count, of, total, *_ = verified.rows[-1]
    assert (count, "of") == (total, of)


async def test_what_breaks_an_invariant_is_named_and_ends_with_1(jobs: Jobs, jobsctl: Jobsctl) -> None:
    made = (await jobs.create("one")).job.job_id
    await jobs.sql("DELETE FROM hourglass.job_events")
    broken = await jobsctl("verify", "log_ends_with_row", "--of-tenant", TENANT)
    assert (1, "INVARIANT_BROKEN: 1 violation of LOG_ENDS_WITH_ROW\n") == (broken.code, broken.err)
    assert broken.out.startswith(f"LOG_ENDS_WITH_ROW: {TENANT} {made}: ")
    pages = await jobsctl("verify", "LOG_ENDS_WITH_ROW", "-o", "json")
    assert [made] == [one["subject"] for page in pages.json_lines for one in page["violations"]]
    unknown = await jobsctl("verify", "beauty")
    assert (1, "INVALID_ARGUMENT") == (unknown.code, unknown.err.split(":")[0])


async def test_a_key_is_shown_once_listed_and_revoked(jobsctl: Jobsctl) -> None:
    order = (
        "keys",
        "create",
        TENANT,
        "batch",
        "--scope",
        "read",
        "--scope",
        "write",
        "--expires",
        "2100-01-01",
    )
    made = await jobsctl(*order, *BECAUSE, "--request-id", "k1")
    secret = made.out.strip()
    again = await jobsctl(*order, *BECAUSE, "--request-id", "k1", "-o", "json")
    assert (0, "", True) == (again.code, again.json["secret"], again.json["replayed"])
    key = again.json["api_key"]["key_id"]
    assert key in secret
    listed = await jobsctl("keys", "list", TENANT)
    assert [key, "batch", "read", "write"] == listed.rows[1][:4]
    assert secret not in listed.out
    revoked = await jobsctl("keys", "revoke", TENANT, key, *BECAUSE)
    assert "revoked" in {row[0] for row in revoked.rows}
    unknown = await jobsctl("keys", "revoke", TENANT, "a" * len(key), *BECAUSE, "--request-id", "k2")
    assert (1, "API_KEY_NOT_FOUND") == (unknown.code, unknown.err.split(":")[0])


async def test_health_is_what_the_server_says_of_each_service(jobs: Jobs, jobsctl: Jobsctl) -> None:
    well = await jobsctl("health")
    assert 0 == well.code
    assert {"SERVING"} == {row[1] for row in well.rows[1:]}
    assert "hourglass.jobs.v1.JobService" in {row[0] for row in well.rows}
    jobs.app.server.health.close()
    alive = await jobsctl("health", LIVENESS)
    assert (0, [LIVENESS, "SERVING"]) == (alive.code, alive.rows[-1])
    unready = await jobsctl("health", "readiness")
    assert (3, "NOT_SERVING: readiness\n") == (unready.code, unready.err)
    unknown = await jobsctl("health", "beauty")
    assert (2, "USAGE: SERVICE: not known here: beauty\n") == (unknown.code, unknown.err)
    ill = await jobsctl("health", "-o", "json")
    assert 3 == ill.code
    assert ill.err.startswith("NOT_SERVING: (overall), ")
    assert "SERVING" == ill.json["statuses"][LIVENESS]["status"]


async def test_a_schema_is_looked_at_and_brought_up_to_date(empty_database: TestDatabase) -> None:
    offline = Jobsctl("127.0.0.1:1")
    before = await offline("migrate", "--status", "--dsn", empty_database.owner)
    assert (1, "MIGRATIONS_PENDING") == (before.code, before.err.split(":")[0])
    assert [[str(one), "missing"] for one in load()] == before.rows[1:]
    done = await offline("migrate", DATABASE_URL=empty_database.owner)
    assert (0, ["up", "to", "date:", str(len(load())), "applied"]) == (done.code, done.rows[-1])
    after = await offline("migrate", "--status", "-o", "json", DATABASE_URL=empty_database.owner)
    assert (0, {"applied"}) == (after.code, {one["state"] for one in after.json["migrations"]})
    again = await offline("migrate", "--dsn", empty_database.owner)
    assert "up to date: nothing was missing\n" == again.out


async def test_a_database_that_cannot_be_reached_is_a_line() -> None:
    failed = await Jobsctl("127.0.0.1:1")("migrate", "--dsn", "postgresql://owner@/jobs?host=/nonexistent")
    assert (3, "DATABASE_UNAVAILABLE") == (failed.code, failed.err.split(":")[0])
