"""How the demo reads a stream: it leaves when it wants to, and resumes where it was."""

import pytest

from budget.core import Budget
from hourglass_client.transcript import Transcript
from launcher.demo import steps
from launcher.demo.errors import DemoFailed
from tests.integration.launcher.scripted_jobs import EPOCH, ScriptedJobs, scripted_events, serving

TEXTS = ("The ", "sky ", "is ", "blue.")


async def watch(target: str, transcript: Transcript, *, until: int = 1_000, limit: float = 10.0) -> None:
    await steps.watch(
        target,
        "job",
        transcript,
        lambda seen: seen.token_count >= until,
        budget=Budget.for_work(limit),
    )


async def test_a_dropped_stream_goes_on_after_the_cursor_without_gap_or_repeat() -> None:
    service, transcript = ScriptedJobs(scripted_events(*TEXTS)), Transcript()
    async with serving(service) as target:
        await watch(target, transcript, until=2)
        assert (transcript.text, transcript.ended) == ("The sky ", False)
        await watch(target, transcript)
    assert (transcript.text, transcript.ended) == ("The sky is blue.", True)
    assert service.cursors == [0, EPOCH + 4]


async def test_a_server_that_asks_to_resume_is_asked_again() -> None:
    service, transcript = ScriptedJobs(scripted_events(*TEXTS), resume_after=3), Transcript()
    async with serving(service) as target:
        await watch(target, transcript)
    assert transcript.text == "The sky is blue."
    assert service.cursors == [0, EPOCH + 3, EPOCH + 6]


async def test_a_job_that_is_not_done_in_time_is_a_failure() -> None:
    with pytest.raises(DemoFailed, match=r"watch: after 0\.5 s the job is still UNSPECIFIED"):
        await watch("127.0.0.1:1", Transcript(), limit=0.5)
