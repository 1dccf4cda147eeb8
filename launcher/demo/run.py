"""The demo, step by step."""

import time
from typing import Final

import grpc

from budget.core import Budget
from hourglass.jobs.v1.job_pb2 import Job
from hourglass_client.transcript import Transcript
from launcher.components import LOCAL, REAL_MODEL
from launcher.demo import checks, report, steps
from launcher.demo.answer import Answer, Progress
from launcher.demo.errors import DemoFailed
from launcher.demo.steps import Created, Question, Quoted
from launcher.demo.terminal import Terminal
from launcher.local_model import ModelFacts, model_facts
from launcher.settings import DemoSettings
from launcher.stack import LOGS, START_LIMIT, Plan, Stack, running_with_database
from presentation.values import dollars

MAX_TOKENS: Final = 96
WATCH_LIMIT: Final = 120.0
FACTS_LIMIT: Final = 5.0


async def run(settings: DemoSettings, terminal: Terminal) -> None:
    """Start everything, take one job from its price to its receipt, stop everything.

    Raises:
        DemoFailed: something did not keep its promise.
        grpc.aio.AioRpcError: a call failed.
        See `launcher.stack.running_with_database` for what fails before.
    """
    question = Question(model=settings.chosen_model, prompt=settings.chosen_prompt, max_tokens=MAX_TOKENS)
    checks.can_run(question.model)
    terminal.heading("Starting the stack")
    budget = Budget.for_work(START_LIMIT)
    async with running_with_database(
        settings.database_url, Plan(logs=LOGS / "demo"), budget=budget, tell=terminal.fact
    ) as stack:
        await stack.unless_ended(_one_job(stack, question, terminal))
        terminal.heading("Stopping")
    terminal.success("everything that was started has ended")


async def _one_job(stack: Stack, question: Question, terminal: Terminal) -> None:
    before = await _facts(stack)
    async with steps.connected(stack.jobs) as channel:
        quoted = await _quote(channel, question, terminal)
        created = await _create(channel, question, quoted, terminal)
        transcript = await _answer(stack, created, question, terminal)
        job = await steps.read(channel, created.response.job.job_id)
    checks.succeeded(job)
    _show_receipt(quoted, created, job, terminal)
    terminal.heading("Checked")
    terminal.success(checks.text_is_the_result(transcript, job))
    terminal.success(checks.money_adds_up(job))
    if question.model == REAL_MODEL:
        terminal.success(checks.real_model_ran(job, before, await _facts(stack)))
    else:
        terminal.note(f"no real model ran: {job.result.provider_model or question.model} is simulated")


async def _quote(channel: grpc.aio.Channel, question: Question, terminal: Terminal) -> Quoted:
    terminal.heading(f"Asking {question.model}")
    terminal.fact("prompt", question.prompt)
    quoted = await steps.quote(channel, question)
    response = quoted.response
    terminal.fact(
        "quote",
        f"at most {dollars(quoted.line.amount)} for {response.input_token_bound} tokens in",
        f"and {response.max_output_token_count} out",
    )
    terminal.fact("workers", report.load(response.worker_load))
    return quoted


async def _create(
    channel: grpc.aio.Channel, question: Question, quoted: Quoted, terminal: Terminal
) -> Created:
    created = await steps.create(channel, question, quoted.response.quote_id)
    took = created.ledger.took_duration.ToMilliseconds()
    terminal.fact(
        "job",
        f"{created.response.job.job_id} is committed, {took} ms into a deadline of {steps.CREATE_LIMIT:g} s",
    )
    return created


async def _answer(stack: Stack, created: Created, question: Question, terminal: Terminal) -> Transcript:
    """Watch the job, drop the stream half way, and resume it by its cursor on another connection."""
    terminal.heading("The answer, as it comes")
    budget = Budget.for_work(WATCH_LIMIT)
    progress = Progress(created=time.monotonic(), max_tokens=question.max_tokens)
    job_id = created.response.job.job_id
    with terminal.answer(progress) as answer:

        def half_seen(transcript: Transcript) -> bool:
            _show(answer, progress, transcript)
            return transcript.token_count >= question.max_tokens // 2

        def all_seen(transcript: Transcript) -> bool:
            _show(answer, progress, transcript)
            return False

        transcript = Transcript()
        await steps.watch(stack.jobs, job_id, transcript, half_seen, budget=budget)
        if transcript.ended:
            # A short or sudden answer: what came after its half is read once more.
            transcript = transcript.up_to_token(max(transcript.token_count // 2, 1))
        answer.note(
            f"stream dropped on purpose after {transcript.token_count} tokens; "
            f"resumed after sequence {transcript.cursor}"
        )
        await steps.watch(stack.jobs, job_id, transcript, all_seen, budget=budget)
    return transcript


def _show(answer: Answer, progress: Progress, transcript: Transcript) -> None:
    progress.seen(transcript, time.monotonic())
    answer.show(transcript)


def _show_receipt(quoted: Quoted, created: Created, job: Job, terminal: Terminal) -> None:
    terminal.heading("Receipt")
    report.show_result(terminal, job)
    terminal.show(report.attempts_table(job))
    terminal.show(report.money_table(quoted.line, job))
    terminal.heading("Where the time went")
    for ledger in (quoted.ledger, created.ledger):
        report.show_waterfall(terminal, ledger)


async def _facts(stack: Stack) -> ModelFacts:
    try:
        return await model_facts(stack.models[LOCAL], budget=Budget.for_work(FACTS_LIMIT))
    except (OSError, ValueError) as error:
        raise DemoFailed("model", f"the local model's server does not say what it did: {error}") from error
