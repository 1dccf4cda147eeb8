"""`make demo`: the whole way, as a newcomer sees it."""

import asyncio
import os
import re
import sys

import psutil
import pytest

from launcher.processes import PROJECT
from tests.postgres import TestDatabase

pytestmark = pytest.mark.timeout(180)


async def demo(**variables: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "launcher.demo"),
        env={**os.environ, **variables},
        cwd=PROJECT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode is not None
    assert [] == processes_of(process.pid)
    return process.returncode, output.decode(), errors.decode()


def processes_of(launcher: int) -> list[list[str]]:
    """What a launcher has started and that still runs: each names its launcher."""
    commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return [line for line in commands if "launcher.tethered" in line and str(launcher) in line]


async def test_the_demo_takes_one_job_from_its_price_to_its_receipt_on_the_real_model(
    database: TestDatabase,
) -> None:
    exit_code, output, errors = await demo(DATABASE_URL=database.owner, MODEL="", PROMPT="")
    assert (0, "") == (exit_code, errors), output + errors
    for promised in (
        "stream dropped on purpose after ",
        "pricing/GetPrice",
        "postgres/create_job",
        "Quote took ",
        "CreateJob took ",
        "the text of both streams is the stored result",
        "reserved = charged + given back",
        "smollm2-135m (134.5 M parameters) generated these ",
        "everything that was started has ended",
    ):
        assert promised in output


@pytest.mark.faults
async def test_a_simulated_model_works_too_and_the_demo_says_that_no_real_one_ran(
    database: TestDatabase,
) -> None:
    exit_code, output, errors = await demo(
        DATABASE_URL=database.owner, MODEL="simulated:tokens=30", PROMPT="Count."
    )
    assert (0, "") == (exit_code, errors), output + errors
    assert "no real model ran" in output
    assert "134.5 M parameters" not in output


@pytest.mark.faults
@pytest.mark.scenario("W3")
async def test_a_worker_killed_in_mid_answer_costs_an_epoch_and_the_tenant_nothing(
    database: TestDatabase,
) -> None:
    exit_code, output, errors = await demo(
        DATABASE_URL=database.owner, MODEL="simulated:tokens=96,tps=30", PROMPT="", CHAOS="1"
    )
    assert (0, "") == (exit_code, errors), output + errors
    killed = re.search(r"(worker-[12]) \(process \d+\) killed after \d+ tokens", output)
    assert killed
    other = {"worker-1": "worker-2", "worker-2": "worker-1"}[killed[1]]
    for promised in (
        "last durable sequence ",
        "attempt 1 ended UNKNOWN (",
        f"{other} makes attempt 2",
        "the answer starts anew",
        f"{killed[1]} was killed in mid-answer; {other} finished the job: two attempts, one accepted",
        "the text of the stream is the stored result",
        "the tenant paid once: the accepted answer at the quoted rates",
        "everything that was started has ended",
    ):
        assert promised in output


@pytest.mark.faults
async def test_an_answer_that_is_too_quick_to_be_disturbed_is_told(database: TestDatabase) -> None:
    exit_code, output, errors = await demo(
        DATABASE_URL=database.owner, MODEL="simulated:tokens=3", PROMPT="", CHAOS="1"
    )
    assert 1 == exit_code, output
    assert errors.startswith("the demo failed: chaos: the answer was over before its worker could be killed")


async def test_chaos_is_on_or_off() -> None:
    exit_code, _, errors = await demo(CHAOS="much")
    assert 1 == exit_code
    assert "CHAOS" in errors
    assert "Traceback" not in errors


@pytest.mark.faults
async def test_a_model_without_a_price_ends_the_demo_with_a_clear_line(database: TestDatabase) -> None:
    exit_code, output, errors = await demo(DATABASE_URL=database.owner, MODEL="simulated-fats", PROMPT="")
    assert 1 == exit_code, output
    assert errors.startswith("the demo failed: NOT_FOUND/UNKNOWN_MODEL: ")
    assert "simulated-fast" in errors


async def test_a_model_that_nobody_serves_is_refused_before_anything_starts() -> None:
    exit_code, output, errors = await demo(MODEL="gpt-5", PROMPT="")
    assert (1, "") == (exit_code, output)
    assert errors.startswith("the demo failed: model: nobody on this machine serves gpt-5; MODEL= takes ")


async def test_a_database_that_cannot_be_reached_ends_the_demo_with_a_clear_line() -> None:
    exit_code, _, errors = await demo(DATABASE_URL="postgresql://nobody@127.0.0.1:1/none")
    assert 1 == exit_code
    assert errors.startswith("the demo failed: ")
    assert "Traceback" not in errors
