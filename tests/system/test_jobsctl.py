"""`jobsctl` beside the whole stack: jobs that really run, told as stories."""

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli import Jobsctl, Ran
from tests.postgres import TestDatabase
from tests.stacks import stack_on
from tests.waiting import eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]
FAST = "simulated-fast"
SLOW = "simulated:tokens=200,tps=20"
LOST = "simulated-reset-mid"
REFUSED = "simulated-400"


async def created(jobsctl: Jobsctl, model: str, *flags: str) -> str:
    made = await jobsctl("jobs", "create", "--model", model, "--prompt", "Why?", "-q", *flags)
    assert 0 == made.code, made.err
    return made.out.strip()


def part(story: Ran, heading: str) -> Sequence[str]:
    """The lines under a heading, with single blanks."""
    lines = story.out.split(f"\n{heading}\n", maxsplit=1)[1].split("\n\n")[0]
    return [" ".join(line.split()) for line in lines.splitlines()]


def happened(story: Ran) -> Sequence[str]:
    """The events without their times."""
    lines = part(story, "What happened (UTC)")
    return [line.split(":", maxsplit=2)[2].split(" ", maxsplit=1)[1] for line in lines]


async def read_until(process: asyncio.subprocess.Process, wanted: str) -> Sequence[str]:
    """The lines of a command up to the first that has these words."""
    assert process.stdout is not None
    seen: list[str] = []
    while not seen or wanted not in seen[-1]:
        line = await process.stdout.readline()
        assert line, seen
        seen.append(line.decode())
    return seen


async def test_a_job_is_watched_to_its_end_and_explained(database: TestDatabase, tmp_path: Path) -> None:
    async with stack_on(database, tmp_path) as stack:
        jobsctl = Jobsctl(stack.jobs)
        job = await created(jobsctl, FAST, "--max-output-tokens", "20")
        watched = await jobsctl("jobs", "watch", job)
        text = await jobsctl("jobs", "watch", job, "--text")
        waited = await jobsctl("jobs", "wait", job, "--content", "-o", "json")
        story = await jobsctl("explain", job)
        verified = await jobsctl("verify")
        worker = await Jobsctl(stack.children["worker-1"].address)("health")

    assert (0, 0, 0, 0) == (watched.code, text.code, waited.code, story.code)
    assert "SUCCEEDED       ACCEPTED, charged $0." in watched.out.splitlines()[-1]
    assert waited.json["job"]["result"]["text"] == text.out.rstrip("\n")
    assert any("CreateJob took at least" in line for line in part(story, "How it was created"))
    assert [
        "QUEUED CREATED",
        "RUNNING CLAIMED",
        "#1 claimed by worker-1",
        f"#1 sent to simulated, as {FAST}",
    ] == [*happened(story)[:4]]
    assert happened(story)[-1].startswith("SUCCEEDED ACCEPTED, charged $0.")
    assert part(story, "Attempts (1 counted)")[1].startswith("1 worker-1 SUCCEEDED COMPLETED")
    assert any(line.startswith("quoted $0.") for line in part(story, "Money"))
    assert any(line.startswith("charged $0.") and "of the quote" in line for line in part(story, "Money"))
    assert ["nothing: SUCCEEDED is its end"] == part(story, "What it waits for now")
    assert (0, "") == (verified.code, verified.err)
    assert (0, True) == (worker.code, "hourglass.worker.v1.WorkerService" in worker.out)


async def test_a_killed_worker_and_an_operators_retry_are_in_the_story(
    database: TestDatabase, tmp_path: Path
) -> None:
    async with stack_on(database, tmp_path, workers=("worker-1", "worker-2")) as stack:
        jobsctl = Jobsctl(stack.jobs)
        job = await created(jobsctl, SLOW, "--on-unknown", "fail", "--max-output-tokens", "40")
        watching = await jobsctl.start("jobs", "watch", job)
        seen = await read_until(watching, "#1  text")
        (first,) = [line.split()[-1] for line in seen if "claimed" in line]
        stack.children[first].signal(signal.SIGKILL)
        await watching.communicate()
        retried = await jobsctl("jobs", "retry", job, "--reason", "the worker died", "--user", "olga")
        waited = await jobsctl("jobs", "wait", job, "--timeout", "60")
        story = await jobsctl("explain", job)
        told = await jobsctl("explain", job, "-o", "json")
        await stack.children[first].ended()
        del stack.children[first]

    (second,) = {"worker-1", "worker-2"} - {first}
    assert (1, 0, 0) == (watching.returncode, retried.code, waited.code)
    assert 'QUEUED RETRIED, by olga: "the worker died"' in happened(story)
    assert [f"#1 claimed by {first}", f"#2 claimed by {second}"] == [
        line for line in happened(story) if "claimed by" in line
    ]
    rows = part(story, "Attempts (1 counted)")
    assert rows[1].startswith(f"1 {first} UNKNOWN")
    assert rows[2].startswith(f"2 {second} SUCCEEDED COMPLETED")
    money = part(story, "Money")
    assert ["1", "2"] == [row.split()[0] for row in money[1:3]]
    assert any("that is unknown, over 2 attempts" in line for line in money)
    assert 2 == len(told.json["job"]["attempts"])
    assert "nothing: SUCCEEDED is its end" == told.json["waits_for"]
    assert not [event for event in told.json["events"] if "token_delta" in event]


async def test_a_cancelled_job_and_a_held_one_say_what_is_unknown(
    database: TestDatabase, tmp_path: Path
) -> None:
    async with stack_on(database, tmp_path) as stack:
        jobsctl = Jobsctl(stack.jobs)
        held = await created(jobsctl, LOST, "--on-unknown", "hold")
        failed = await created(jobsctl, REFUSED)
        running = await created(jobsctl, SLOW, "--max-output-tokens", "200")
        watching = await jobsctl.start("jobs", "watch", running)
        await read_until(watching, "#1  text")
        going_on = await jobsctl("explain", running)
        cancelled = await jobsctl("jobs", "cancel", running, "--reason", "asked twice", "--user", "ann")
        await watching.communicate()
        cancel_story = await jobsctl("explain", running)

        async def is_held() -> bool:
            return "HELD" in (await jobsctl("jobs", "get", held)).out

        await eventually(is_held, within=20.0)
        held_story = await jobsctl("explain", held)
        resolved = await jobsctl(
            "bulk", "resolve", "fail", held, "--of-tenant", "demo", "--reason", "x", "--yes"
        )
        failed_story = await jobsctl("explain", failed)

    assert part(going_on, "What it waits for now")[0].startswith(
        "the provider's answer to worker-1 (attempt 1)"
    )
    assert (0, "CANCEL_REQUESTED") == (cancelled.code, cancelled.out.split()[0])
    cancel = part(cancel_story, "Cancel")
    assert cancel[0].endswith('by ann: "asked twice"')
    assert cancel[1].endswith("what it did after that is unknown")
    assert any("unknown, at most $0." in line for line in part(cancel_story, "Money"))
    assert f"jobsctl jobs resolve {held} retry|fail" in part(held_story, "What it waits for now")[0]
    assert any("still set aside" in line for line in part(held_story, "Money"))
    assert 0 == resolved.code
    assert f"jobsctl jobs retry {failed}" in part(failed_story, "What it waits for now")[0]


async def test_a_queued_job_says_which_lane_it_waits_for(database: TestDatabase, tmp_path: Path) -> None:
    async with stack_on(database, tmp_path) as stack:
        jobsctl = Jobsctl(stack.jobs)
        lane = f"simulated/{FAST}"
        await created(jobsctl, FAST)
        paused = await jobsctl("lanes", "pause", lane, "--reason", "they are down")
        job = await created(jobsctl, FAST)
        story = await jobsctl("explain", job)
        resumed = await jobsctl("lanes", "resume", lane, "--reason", "they are back")
        waited = await jobsctl("jobs", "wait", job, "--timeout", "60")

    assert (0, 0, 0) == (paused.code, resumed.code, waited.code)
    assert part(story, "What it waits for now")[0].startswith(f"its lane: {lane} is PAUSED (OPERATOR_PAUSE)")
