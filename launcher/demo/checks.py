"""What the demo asserts. Each raises DemoFailed, and returns what it found."""

from hourglass.jobs.v1.job_pb2 import AttemptOutcome, Job, JobState
from hourglass_client import Transcript
from jobs_store.rate_card import Usage
from launcher.components import REAL_MODEL, served
from launcher.demo.errors import DemoFailed
from launcher.local_model import ModelFacts
from servicekit.wire_money import amount_of
from wire.rate_card import rate_card_of


def can_run(model: str) -> None:
    """A model server of this stack answers for the model: a price alone runs nothing."""
    if not served(model):
        raise DemoFailed(
            "model",
            f"nobody on this machine serves {model}; "
            f"MODEL= takes {REAL_MODEL}, or simulated with its variants",
        )


def succeeded(job: Job) -> None:
    """The job ended well, with one accepted attempt."""
    if job.state != JobState.JOB_STATE_SUCCEEDED:
        raise DemoFailed("job", f"it ended {JobState.Name(job.state)} ({job.state_cause})")
    accepted = [a for a in job.attempts if a.outcome == AttemptOutcome.ATTEMPT_OUTCOME_SUCCEEDED]
    if len(accepted) != 1:
        raise DemoFailed("job", f"{len(accepted)} attempts were accepted, one is promised")


def text_is_the_result(transcript: Transcript, job: Job, streams: str = "both streams") -> str:
    """What was streamed, across whatever came between, is what was stored."""
    streamed, stored = transcript.text, job.result.text
    if streamed != stored:
        differs = next(
            (n for n, pair in enumerate(zip(streamed, stored, strict=False)) if pair[0] != pair[1]), -1
        )
        where = f"at character {differs}" if differs >= 0 else f"in length, {len(streamed)} and {len(stored)}"
        raise DemoFailed("resume", f"the streamed text differs from the stored result {where}")
    return f"the text of {streams} is the stored result, {len(stored)} characters"


def money_adds_up(job: Job) -> str:
    """The reservation is settled: what was set aside is what was paid and what went back."""
    for reservation in job.charge.reservations:
        amount, captured, released = (
            amount_of(money)
            for money in (reservation.amount, reservation.captured_amount, reservation.released_amount)
        )
        if not reservation.HasField("settle_time") or amount != captured + released:
            raise DemoFailed("money", f"reservation {reservation.number} is not settled")
        if captured > amount_of(job.charge.quoted_amount):
            raise DemoFailed("money", f"{captured} was charged, above the quote")
    return "reserved = charged + given back, and not above the quote"


def taken_over(job: Job, killed: str) -> str:
    """The killed worker's attempt has an unknown outcome, and another worker's was accepted."""
    outcomes = [AttemptOutcome.Name(a.outcome).removeprefix("ATTEMPT_OUTCOME_") for a in job.attempts]
    workers = [attempt.worker_id for attempt in job.attempts]
    if outcomes != ["UNKNOWN", "SUCCEEDED"] or workers[0] != killed or workers[1] == killed:
        raise DemoFailed("takeover", f"{killed} was killed; the attempts of {workers} ended {outcomes}")
    return f"{killed} was killed in mid-answer; {workers[1]} finished the job: two attempts, one accepted"


def paid_once(job: Job) -> str:
    """The tenant pays for the accepted answer alone, whatever the lost attempt may have cost."""
    used = job.result.usage
    price = rate_card_of(job.charge.rate_card).amount(
        Usage(
            input_tokens=used.input_token_count,
            cached_input_tokens=used.cached_input_token_count,
            output_tokens=used.output_token_count,
        )
    )
    charged = amount_of(job.charge.captured_amount)
    if len(job.charge.reservations) != 1 or charged != price:
        raise DemoFailed("money", f"{charged} was charged for an answer that costs {price}")
    return "the tenant paid once: the accepted answer at the quoted rates; the lost attempt is the operator's"


def real_model_ran(job: Job, before: ModelFacts, after: ModelFacts) -> str:
    """The local network generated this answer: the server's own counters say so."""
    generated, used = after.generated - before.generated, job.result.usage.output_token_count
    if job.result.provider_model != after.name:
        raise DemoFailed("model", f"{job.result.provider_model!r} answered instead of {after.name!r}")
    if not 0 < used <= generated or (len(job.attempts) == 1 and used != generated):
        raise DemoFailed("model", f"{used} tokens were reported, the model's server generated {generated}")
    millions = after.parameters / 1e6
    return f"{after.name} ({millions:.1f} M parameters) generated these {generated} tokens on this machine"
