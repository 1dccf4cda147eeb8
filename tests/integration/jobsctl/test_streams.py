"""Streams of the command line: resumed, interrupted, left; and servers that are not there."""

import asyncio
import json
import signal

import pytest

from tests.chaos_proxy import ChaosProxy
from tests.cli import Jobsctl
from tests.integration.launcher.scripted_jobs import ScriptedJobs, scripted_events, serving
from tests.jobs import Jobs
from tests.unit.jobsctl.stories import JOB_ID

pytestmark = pytest.mark.faults

TEXTS = ("The ", "sky ", "is ", "blue.")


async def test_a_watch_goes_on_by_its_cursor_when_the_server_asks_for_it() -> None:
    events = scripted_events(*TEXTS)
    service = ScriptedJobs(events, resume_after=3)
    async with serving(service) as address:
        watched = await Jobsctl(address)("jobs", "watch", JOB_ID, "-o", "json")
    assert (0, "") == (watched.code, watched.err)
    assert [event.sequence for event in events] == [int(line["sequence"]) for line in watched.json_lines]
    assert [0, events[2].sequence, events[5].sequence] == service.cursors


async def test_a_watch_starts_after_a_cursor_and_may_show_nothing_but_the_text() -> None:
    events = scripted_events(*TEXTS)
    async with serving(ScriptedJobs(events)) as address:
        rest = await Jobsctl(address)("jobs", "watch", JOB_ID, "--after", str(events[-2].sequence))
        text = await Jobsctl(address)("jobs", "watch", JOB_ID, "--text")
    assert (0, 1) == (rest.code, len(rest.out.splitlines()))
    assert (0, "The sky is blue.\n") == (text.code, text.out)


async def test_a_watch_outlives_a_connection_that_breaks(jobs: Jobs, jobsctl: Jobsctl) -> None:
    made = (await jobs.create("k1")).job.job_id
    host, port = jobs.address.split(":")
    async with ChaosProxy.to_tcp(host, int(port)) as proxy:
        process = await Jobsctl(f"127.0.0.1:{proxy.port}").start("jobs", "watch", made, "-o", "json")
        assert process.stdout is not None
        first = json.loads(await process.stdout.readline())
        proxy.sever()
        await jobsctl("jobs", "cancel", made)
        out, err = await process.communicate()
    rest = [json.loads(line) for line in out.splitlines()]
    sequences = [int(event["sequence"]) for event in (first, *rest)]
    assert sorted(set(sequences)) == sequences
    assert "JOB_STATE_CANCELLED" == rest[-1]["state_changed"]["state"]
    assert f"the stream broke; it goes on after sequence {first['sequence']}" in err.decode()
    assert 1 == process.returncode


@pytest.mark.parametrize("output", ["table", "json"])
async def test_an_interrupt_ends_a_stream_with_130_and_no_word(
    jobs: Jobs, jobsctl: Jobsctl, output: str
) -> None:
    made = (await jobs.create("k1")).job.job_id
    process = await jobsctl.start("jobs", "watch", made, "-o", output)
    assert process.stdout is not None
    assert await process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    assert (130, b"") == (process.returncode, err.strip())


async def test_whoever_stops_reading_ends_the_command(jobs: Jobs, jobsctl: Jobsctl) -> None:
    made = (await jobs.create("k1")).job.job_id
    process = await jobsctl.start("jobs", "watch", made)
    assert process.stdout is not None
    assert await process.stdout.readline()
    process.stdout._transport.close()  # type: ignore[attr-defined] # asyncio has no other way
    await asyncio.sleep(0)
    await jobsctl("jobs", "cancel", made)
    assert process.stderr is not None
    assert b"" == await process.stderr.read()
    assert 141 == await process.wait()


async def test_a_server_that_is_not_there_is_3() -> None:
    for line in (["jobs", "get", JOB_ID], ["jobs", "watch", JOB_ID], ["health"], ["verify"]):
        failed = await Jobsctl("127.0.0.1:1")(*line)
        assert (3, "UNAVAILABLE: 127.0.0.1:1 cannot be reached") == (failed.code, failed.err[:42])


async def test_a_deadline_that_is_over_is_3(jobs: Jobs, jobsctl: Jobsctl) -> None:
    made = (await jobs.create("k1")).job.job_id
    late = await jobsctl("jobs", "watch", made, "--timeout", "600ms")
    assert (3, f"DEADLINE_EXCEEDED: {jobs.address} was not done within 0.6 s\n") == (late.code, late.err)
    hopeless = await jobsctl("jobs", "get", made, "--timeout", "1ms")
    assert (3, "DEADLINE_EXCEEDED") == (hopeless.code, hopeless.err.split(":")[0])
