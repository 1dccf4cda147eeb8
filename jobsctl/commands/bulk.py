"""`jobsctl bulk`: the same decision about many jobs. It shows what would happen, asks, and then does it."""

from collections.abc import Callable
from typing import Any, Final
from uuid import uuid4

import click

from jobsctl.commands.options import Branch, agreed, recorded, settings_of
from jobsctl.commands.values import MOMENT

_SELECTION: Final[tuple[Callable[[Any], Any], ...]] = (
    click.argument("job_ids", metavar="[JOB]...", nargs=-1),
    click.option("--of-tenant", "tenant", default="", help="Only this tenant's."),
    click.option("--lane", default="", help="Only this lane's."),
    click.option("--cause", default="", help="Only those that stand where they stand for this cause."),
    click.option("--created-from", type=MOMENT, help="Only jobs created then or later: a time, or -24h."),
    click.option("--created-before", type=MOMENT, help="Only jobs created before."),
    click.option("--dry-run", is_flag=True, help="Only show what would happen."),
    click.option("--yes", is_flag=True, help="Do not show it first, and do not ask."),
)


def _selection(command: Any) -> Any:
    for option in reversed(_SELECTION):
        command = option(command)
    return command


@click.group(cls=Branch)
def bulk() -> None:
    """Decide about many jobs at once: shows what would happen, asks, then does it."""


@bulk.command()
@_selection
@recorded
@click.pass_context
def retry(ctx: click.Context, /, **given: Any) -> None:
    """Queue all FAILED jobs of a selection again.

    \b
    Example:
      jobsctl bulk retry --lane simulated/simulated-fast --created-from -1h --reason "they are back"
    """
    _carry_out(ctx, "retry", given)


@bulk.command()
@click.argument("resolution", type=click.Choice(["retry", "fail"]))
@_selection
@recorded
@click.pass_context
def resolve(ctx: click.Context, /, resolution: str, **given: Any) -> None:
    """End the holds of all HELD jobs of a selection.

    \b
    Example:
      jobsctl bulk resolve fail --of-tenant acme --reason "too old to matter" --yes
    """
    _carry_out(ctx, f"resolve {resolution}", given)


@bulk.command()
@_selection
@recorded
@click.pass_context
def cancel(ctx: click.Context, /, **given: Any) -> None:
    """Cancel all unfinished jobs of a selection.

    \b
    Example:
      jobsctl bulk cancel --of-tenant acme --reason "they left" --dry-run
    """
    _carry_out(ctx, "cancel", given)


def _carry_out(ctx: click.Context, action: str, given: dict[str, Any]) -> None:
    from jobsctl.admin import bulk as work
    from jobsctl.session import run
    from presentation.values import counted

    dry_run, yes = given.pop("dry_run"), given.pop("yes")
    reason, request_id = given.pop("reason"), given.pop("request_id")
    selection = _checked(work.Selection(**given))
    order = work.Order(
        action=work.Action(action),
        selection=selection,
        request_id=request_id or f"jobsctl-{uuid4()}",
        reason=reason,
    )
    settings = settings_of(ctx)
    if dry_run or not yes:
        tally = run(settings, lambda session: work.look(session, order))
        if dry_run or not tally.done:
            click.echo(f"would {action} {counted(tally.done, 'job')}, {tally.refused} refused", err=True)
            return
        if not agreed(f"{action.capitalize()} {counted(tally.done, 'job')}?", yes=False):
            return
    if not request_id:
        named = f"request id {order.request_id}"
        click.echo(f"{named} (repeat safely with --request-id {order.request_id})", err=True)
    tally = run(settings, lambda session: work.carry_out(session, order))
    click.echo(f"{action}: {counted(tally.done, 'job')}", err=True)


def _checked(selection: Any) -> Any:
    if not selection.says_something:
        raise click.UsageError(
            "Which jobs? Give JOB, --of-tenant, --lane, --cause, --created-from or --created-before."
        )
    if selection.job_ids and not selection.tenant:
        raise click.UsageError("JOB takes --of-tenant, too: ids are looked up within a tenant.")
    return selection
