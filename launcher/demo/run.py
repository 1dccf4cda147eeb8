"""The demo, step by step."""

import time
from typing import Final

from budget.core import Budget
from hourglass.jobs.v1.job_pb2 import Job, UnknownOutcomePolicy
from hourglass_client import Transcript
from launcher.components import LOCAL, REAL_MODEL
from launcher.demo import checks, report, steps
from launcher.demo.answer import Answer, Progress
from launcher.demo.chaos import QUICK_LEASES, QUICK_REAPING, WORKERS, Killer
from launcher.demo.errors import DemoFailed
from launcher.demo.steps import Caller, Created, Question, Quoted
from launcher.demo.terminal import Terminal
from launcher.local_model import ModelFacts, model_facts
from launcher.settings import DemoSettings
from launcher.stack import LOGS, START_LIMIT, Plan, Stack, running_with_database
from presentation.values import dollars

MAX_TOKENS: Final = 96
WATCH_LIMIT: Final = 120.0
FACTS_LIMIT: Final = 5.0
RETRY: Final = UnknownOutcomePolicy.UNKNOWN_OUTCOME_POLICY_RETRY
SLOWER: Final = "ask for a longer one, or a slower model (MODEL=simulated:tokens=96,tps=20)"


async def run(settings: DemoSettings, terminal: Terminal) -> None:
    """Start everything, take one job from its price to its receipt, stop everything.

    Raises:
        DemoFailed: something did not keep its promise.
        HourglassError: a call failed.
        See `launcher.stack.running_with_database` for what fails before.
    """
    question = Question(model=settings.chosen_model, prompt=settings.chosen_prompt, max_tokens=MAX_TOKENS)
    checks.can_run(question.model)
    terminal.heading("Starting the stack")
    budget = Budget.for_work(START_LIMIT)
    plan = _plan(chaos=settings.kills_a_worker)
    async with running_with_database(settings.database_url, plan, budget=budget, tell=terminal.fact) as stack:
        if settings.kills_a_worker:
            await stack.unless_ended(_one_job_over_two_workers(stack, question, terminal), but_for=WORKERS)
        else:
            await stack.unless_ended(_one_job(stack, question, terminal))
        terminal.heading("Stopping")
    terminal.success("everything that was started has ended")


def _plan(*, chaos: bool) -> Plan:
    logs = LOGS / "demo"
    if not chaos:
        return Plan(logs=logs)
    return Plan(workers=WORKERS, worker=QUICK_LEASES, jobs=QUICK_REAPING, logs=logs)


async def _one_job(stack: Stack, question: Question, terminal: Terminal) -> None:
    before = await _facts(stack)
    async with steps.calling(stack.jobs) as caller:
        quoted = await _quote(caller, question, terminal)
        created = await _create(caller, question, quoted, terminal)
        transcript = await _answer(stack, created, question, terminal)
        job = await steps.read(caller, created.response.job.job_id)
    checks.succeeded(job)
    _show_receipt(quoted, created, job, terminal)
    terminal.heading("Checked")
    terminal.success(checks.text_is_the_result(transcript, job))
    terminal.success(checks.money_adds_up(job))
    await _check_model(stack, question, job, before, terminal)


async def _one_job_over_two_workers(stack: Stack, question: Question, terminal: Terminal) -> None:
    before = await _facts(stack)
    async with steps.calling(stack.jobs) as caller:
        quoted = await _quote(caller, question, terminal)
        created = await _create(caller, question, quoted, terminal, policy=RETRY)
        transcript, killed = await _answer_over_two_workers(stack, created, question, terminal)
        job = await steps.read(caller, created.response.job.job_id)
    checks.succeeded(job)
    _show_receipt(quoted, created, job, terminal)
    terminal.heading("Checked")
    terminal.success(checks.taken_over(job, killed))
    terminal.success(checks.text_is_the_result(transcript, job, "the stream"))
    terminal.success(checks.money_adds_up(job))
    terminal.success(checks.paid_once(job))
    await _check_model(stack, question, job, before, terminal)


async def _check_model(
    stack: Stack, question: Question, job: Job, before: ModelFacts, terminal: Terminal
) -> None:
    if question.model == REAL_MODEL:
        terminal.success(checks.real_model_ran(job, before, await _facts(stack)))
    else:
        terminal.note(f"no real model ran: {job.result.provider_model or question.model} is simulated")


async def _quote(caller: Caller, question: Question, terminal: Terminal) -> Quoted:
    terminal.heading(f"Asking {question.model}")
    terminal.fact("prompt", question.prompt)
    quoted = await steps.quote(caller, question)
    response = quoted.response
    terminal.fact(
        "quote",
        f"at most {dollars(quoted.line.amount)} for {response.input_token_bound} tokens in",
        f"and {response.max_output_token_count} out",
    )
    terminal.fact("workers", report.load(response.worker_load))
    return quoted


async def _create(
    caller: Caller,
    question: Question,
    quoted: Quoted,
    terminal: Terminal,
    *,
    policy: UnknownOutcomePolicy.ValueType | None = None,
) -> Created:
    created = await steps.create(caller, question, quoted.response.quote_id, policy=policy)
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


async def _answer_over_two_workers(
    stack: Stack, created: Created, question: Question, terminal: Terminal
) -> tuple[Transcript, str]:
    """Watch the job on one stream, kill its worker half way, and go on with what the next one says."""
    terminal.heading("The answer, as it comes")
    progress = Progress(created=time.monotonic(), max_tokens=question.max_tokens)
    transcript = Transcript()
    with terminal.answer(progress) as answer:
        killer = Killer(stack, answer, after=question.max_tokens // 2)

        def seen(transcript: Transcript) -> bool:
            killer.see(transcript)
            _show(answer, progress, transcript)
            return False

        job_id = created.response.job.job_id
        await steps.watch(stack.jobs, job_id, transcript, seen, budget=Budget.for_work(WATCH_LIMIT))
    if not killer.killed:
        raise DemoFailed("chaos", f"the answer was over before its worker could be killed: {SLOWER}")
    return transcript, killer.killed


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
