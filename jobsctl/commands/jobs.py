"""`jobsctl jobs`: read, watch and decide about single jobs."""

from typing import Any

import click

from jobsctl.commands.create import create, quote
from jobsctl.commands.options import Branch, agreed, recorded, settings_of
from jobsctl.commands.values import MOMENT

STATES = ("queued", "running", "held", "succeeded", "failed", "cancelled", "expired")


@click.group(cls=Branch)
def jobs() -> None:
    """Make, read, watch and decide about single jobs."""


jobs.add_command(create)
jobs.add_command(quote)


@jobs.command()
@click.argument("job_id", metavar="JOB")
@click.option("--content", is_flag=True, help="What was asked and answered, too.")
@click.pass_context
def get(ctx: click.Context, /, job_id: str, *, content: bool) -> None:
    """Show one job: state, attempts, money.

    \b
    Example:
      jobsctl jobs get 01a22d49-b7d7-7075-b32c-ecffb9470433 --content
    """
    from jobsctl.jobs import reading
    from jobsctl.session import run

    run(settings_of(ctx), lambda session: reading.get(session, job_id, content=content))


@jobs.command("list")
@click.option("--state", "states", multiple=True, type=click.Choice(STATES), help="Only these; repeatable.")
@click.option("--model", default="", help="Only jobs of this model.")
@click.option("--created-from", type=MOMENT, help="Only jobs created then or later: a time, or -24h.")
@click.option("--created-before", type=MOMENT, help="Only jobs created before.")
@click.option("--limit", type=click.IntRange(min=0), default=50, show_default=True, help="0: all.")
@click.option("--page-token", default="", help="Go on where an earlier list ended.")
@click.pass_context
def list_jobs(ctx: click.Context, /, **wanted: Any) -> None:
    """List jobs, newest first.

    \b
    Example:
      jobsctl jobs list --state held --state failed --created-from -24h
    """
    from jobsctl.jobs import reading
    from jobsctl.session import run

    run(settings_of(ctx), lambda session: reading.list_jobs(session, reading.Listing(**wanted)))


@jobs.command()
@click.argument("job_id", metavar="JOB")
@click.option("--after", type=click.IntRange(min=0), default=0, help="The last sequence that is known.")
@click.option("--text", is_flag=True, help="Only the answer, as it comes.")
@click.pass_context
def watch(ctx: click.Context, /, job_id: str, *, after: int, text: bool) -> None:
    """Show a job's events until it ends, over dropped streams and restarted servers.

    Exit code 0 when it SUCCEEDED, 1 when it ended otherwise.

    \b
    Example:
      jobsctl jobs watch 01a22d49-b7d7-7075-b32c-ecffb9470433 -o json | jq -c .event_time
    """
    from jobsctl.jobs import watching
    from jobsctl.session import run

    run(settings_of(ctx), lambda session: watching.watch(session, job_id, after=after, text=text))


@jobs.command()
@click.argument("job_id", metavar="JOB")
@click.option("--content", is_flag=True, help="What was asked and answered, too.")
@click.pass_context
def wait(ctx: click.Context, /, job_id: str, *, content: bool) -> None:
    """Wait until a job has ended, then show it.

    Exit code 0 when it SUCCEEDED, 1 when it ended otherwise, 3 when it has not ended within --timeout.

    \b
    Example:
      jobsctl jobs wait 01a22d49-b7d7-7075-b32c-ecffb9470433 --timeout 5m
    """
    from jobsctl.jobs import reading
    from jobsctl.session import run

    run(settings_of(ctx), lambda session: reading.wait(session, job_id, content=content))


@jobs.command()
@click.argument("job_id", metavar="JOB")
@click.option("--reason", default="", help="Why; stands in the record.")
@click.pass_context
def cancel(ctx: click.Context, /, job_id: str, *, reason: str) -> None:
    """Cancel a job: at once, or as soon as its worker has closed its call.

    \b
    Example:
      jobsctl jobs cancel 01a22d49-b7d7-7075-b32c-ecffb9470433 --reason "asked twice"
    """
    from jobsctl.jobs import deciding
    from jobsctl.session import run

    run(settings_of(ctx), lambda session: deciding.cancel(session, job_id, reason=reason))


@jobs.command()
@click.argument("job_id", metavar="JOB")
@recorded
@click.pass_context
def retry(ctx: click.Context, /, job_id: str, **decision: str) -> None:
    """Queue a FAILED job again, under a new reservation.

    \b
    Example:
      jobsctl jobs retry 01a22d49-b7d7-7075-b32c-ecffb9470433 --reason "the provider is back"
    """
    from jobsctl.decision import Decision
    from jobsctl.jobs import deciding
    from jobsctl.session import run

    run(settings_of(ctx), lambda session: deciding.retry(session, job_id, Decision(**decision)))


@jobs.command()
@click.argument("job_id", metavar="JOB")
@click.argument("resolution", type=click.Choice(["retry", "fail"]))
@recorded
@click.pass_context
def resolve(ctx: click.Context, /, job_id: str, resolution: str, **decision: str) -> None:
    """End the hold of a job: another attempt (retry), or its failure (fail).

    \b
    Example:
      jobsctl jobs resolve 01a22d49-b7d7-7075-b32c-ecffb9470433 retry --reason "nothing was billed"
    """
    from jobsctl.decision import Decision
    from jobsctl.jobs import deciding
    from jobsctl.session import run

    made = Decision(**decision)
    run(settings_of(ctx), lambda session: deciding.resolve(session, job_id, resolution, made))


@jobs.command()
@click.argument("job_id", metavar="JOB")
@click.option("--yes", is_flag=True, help="Do not ask.")
@recorded
@click.pass_context
def erase(ctx: click.Context, /, job_id: str, *, yes: bool, **decision: str) -> None:
    """Erase what a job that has ended was asked and answered; its money stays on record.

    \b
    Example:
      jobsctl jobs erase 01a22d49-b7d7-7075-b32c-ecffb9470433 --yes --reason "asked for by its owner"
    """
    if not agreed(f"Erase the content of job {job_id} for good?", yes=yes):
        return
    from jobsctl.decision import Decision
    from jobsctl.jobs import deciding
    from jobsctl.session import run

    run(settings_of(ctx), lambda session: deciding.erase(session, job_id, Decision(**decision)))
