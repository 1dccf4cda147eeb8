"""`jobsctl explain`, `verify`, `health`, `migrate` and `completion`."""

from typing import Final

import click
from click.shell_completion import get_completion_class

from jobsctl.commands.options import Leaf, settings_of

COMPLETE: Final = "_JOBSCTL_COMPLETE"


@click.command(cls=Leaf)
@click.argument("job_id", metavar="JOB")
@click.pass_context
def explain(ctx: click.Context, /, job_id: str) -> None:
    """Tell the story of one job: creation, events, attempts, money, and what it waits for now.

    \b
    Example:
      jobsctl explain 01a22d49-b7d7-7075-b32c-ecffb9470433
    """
    from jobsctl.session import run
    from jobsctl.story import gathering

    run(settings_of(ctx), lambda session: gathering.explain(session, job_id))


@click.command(cls=Leaf)
@click.argument("invariants", metavar="[INVARIANT]...", nargs=-1)
@click.option("--of-tenant", "tenant", default="", help="Only this tenant; all when absent.")
@click.pass_context
def verify(ctx: click.Context, /, invariants: tuple[str, ...], *, tenant: str) -> None:
    """Check every invariant on the live database, and name what offends.

    Exit code 1 when something does, 3 when something could not be looked at.

    \b
    Example:
      jobsctl verify funds_balance --of-tenant acme
    """
    from jobsctl.admin import verifying
    from jobsctl.session import run

    run(settings_of(ctx), lambda session: verifying.verify(session, invariants, tenant=tenant))


@click.command(cls=Leaf)
@click.argument("services", metavar="[SERVICE]...", nargs=-1)
@click.pass_context
def health(ctx: click.Context, /, services: tuple[str, ...]) -> None:
    """Show what a server says of its own health, service by service; `liveness` asks no database.

    Exit code 3 unless all of it serves. Works with every server of the stack, and as a probe.

    \b
    Examples:
      jobsctl health --server localhost:50053
      jobsctl health liveness --server localhost:50051 --timeout 2s
    """
    from jobsctl.admin import health as work
    from jobsctl.session import run

    run(settings_of(ctx), lambda session: work.health(session, services))


@click.command(cls=Leaf)
@click.option("--dsn", envvar="DATABASE_URL", show_envvar=True, help="The database, as its owner.")
@click.option("--status", "only_status", is_flag=True, help="Only tell; exit code 1 when one is missing.")
@click.pass_context
def migrate(ctx: click.Context, /, dsn: str | None, *, only_status: bool) -> None:
    """Bring a database's schema up to date. The one command that opens Postgres itself.

    \b
    Example:
      jobsctl migrate --dsn postgresql://owner@db.internal/hourglass --status
    """
    if not dsn:
        raise click.UsageError("Give --dsn, or set DATABASE_URL.")
    from jobsctl import migrating

    settings = settings_of(ctx)
    do = migrating.show_status if only_status else migrating.bring_up_to_date
    do(dsn, settings.output, timeout=settings.timeout)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, /, shell: str) -> None:
    """Print the script that completes commands and options in a shell.

    \b
    Example:
      source <(jobsctl completion bash)
    """
    script = get_completion_class(shell)
    assert script is not None, "click completes these shells"
    click.echo(script(ctx.find_root().command, {}, "jobsctl", COMPLETE).source())
