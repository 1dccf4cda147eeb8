"""`jobsctl tenants`, `lanes` and `workers`."""

from decimal import Decimal
from typing import Any

import click

from jobsctl.commands.options import Branch, limits, recorded, settings_of
from jobsctl.commands.values import AMOUNT


@click.group(cls=Branch)
def tenants() -> None:
    """Who pays: what they have, and what they may do."""


@tenants.command("list")
@click.pass_context
def list_tenants(ctx: click.Context) -> None:
    """List all tenants with their money.

    \b
    Example:
      jobsctl tenants list
    """
    from jobsctl.admin import tenants as work
    from jobsctl.session import run

    run(settings_of(ctx), work.list_tenants)


@tenants.command("get")
@click.argument("tenant_id", metavar="TENANT")
@click.pass_context
def get_tenant(ctx: click.Context, /, tenant_id: str) -> None:
    """Show one tenant.

    \b
    Example:
      jobsctl tenants get demo
    """
    from jobsctl.admin import tenants as work
    from jobsctl.session import run

    run(settings_of(ctx), lambda session: work.get(session, tenant_id))


@tenants.command("create")
@click.argument("tenant_id", metavar="TENANT")
@limits
@recorded
@click.pass_context
def create_tenant(ctx: click.Context, /, tenant_id: str, reason: str, request_id: str, **wanted: Any) -> None:
    """Make a tenant, without funds.

    \b
    Example:
      jobsctl tenants create acme --max-running 20 --reason "signed today"
    """
    from jobsctl.admin import tenants as work
    from jobsctl.decision import Decision
    from jobsctl.session import run

    decision = Decision(reason=reason, request_id=request_id)
    run(settings_of(ctx), lambda session: work.create(session, tenant_id, work.Wanted(**wanted), decision))


@tenants.command("update")
@click.argument("tenant_id", metavar="TENANT")
@limits
@click.option("--keep-default", is_flag=True, help="Keep rows as long as the service does for everybody.")
@recorded
@click.pass_context
def update_tenant(ctx: click.Context, /, tenant_id: str, reason: str, request_id: str, **wanted: Any) -> None:
    """Change the limits, the name or the lifetimes of a tenant: only what is given.

    \b
    Example:
      jobsctl tenants update acme --max-queued 5000 --keep payload=1d --reason "a larger batch"
    """
    if all(value is None or value is False or value == () for value in wanted.values()):
        raise click.UsageError("Nothing to change: give an option that changes something.")
    if wanted["lifetimes"] and wanted["keep_default"]:
        raise click.UsageError("--keep and --keep-default contradict each other.")
    from jobsctl.admin import tenants as work
    from jobsctl.decision import Decision
    from jobsctl.session import run

    decision = Decision(reason=reason, request_id=request_id)
    run(settings_of(ctx), lambda session: work.update(session, tenant_id, work.Wanted(**wanted), decision))


@tenants.command("fund", context_settings={"ignore_unknown_options": True})
@click.argument("tenant_id", metavar="TENANT")
@click.argument("amount", type=AMOUNT)
@recorded
@click.pass_context
def fund_tenant(ctx: click.Context, /, tenant_id: str, amount: Decimal, reason: str, request_id: str) -> None:
    """Add dollars to what a tenant has; a negative amount takes out.

    \b
    Examples:
      jobsctl tenants fund acme 25 --reason "invoice 17"
      jobsctl tenants fund acme -5 --reason "paid back" --request-id refund-3
    """
    from jobsctl.admin import tenants as work
    from jobsctl.decision import Decision
    from jobsctl.session import run

    decision = Decision(reason=reason, request_id=request_id)
    run(settings_of(ctx), lambda session: work.fund(session, tenant_id, amount, decision))


@click.group(cls=Branch)
def lanes() -> None:
    """Where jobs queue: one provider route and model each."""


@lanes.command("list")
@click.pass_context
def list_lanes(ctx: click.Context) -> None:
    """List all lanes with their depth.

    \b
    Example:
      jobsctl lanes list
    """
    from jobsctl.admin import lanes as work
    from jobsctl.session import run

    run(settings_of(ctx), work.list_lanes)


@lanes.command("update")
@click.argument("lane")
@click.option(
    "--max-running", type=int, required=True, help="Jobs that may run at once, over all workers; 0: no limit."
)
@recorded
@click.pass_context
def update_lane(ctx: click.Context, /, lane: str, max_running: int, **decision: str) -> None:
    """Limit how many jobs of a lane run at once.

    \b
    Example:
      jobsctl lanes update simulated/simulated-fast --max-running 4 --reason "their new quota"
    """
    from jobsctl.admin import lanes as work
    from jobsctl.decision import Decision
    from jobsctl.session import run

    made = Decision(**decision)
    run(settings_of(ctx), lambda session: work.update(session, lane, max_running=max_running, decision=made))


@lanes.command("pause")
@click.argument("lane")
@recorded
@click.pass_context
def pause_lane(ctx: click.Context, /, lane: str, **decision: str) -> None:
    """Claim nothing from a lane until it is resumed. What runs, runs on.

    \b
    Example:
      jobsctl lanes pause simulated/simulated-fast --reason "they are down"
    """
    from jobsctl.admin import lanes as work
    from jobsctl.decision import Decision
    from jobsctl.session import run

    run(settings_of(ctx), lambda session: work.pause(session, lane, Decision(**decision)))


@lanes.command("resume")
@click.argument("lane")
@recorded
@click.pass_context
def resume_lane(ctx: click.Context, /, lane: str, **decision: str) -> None:
    """End the pause or the parking of a lane.

    \b
    Example:
      jobsctl lanes resume simulated/simulated-fast --reason "they are back"
    """
    from jobsctl.admin import lanes as work
    from jobsctl.decision import Decision
    from jobsctl.session import run

    run(settings_of(ctx), lambda session: work.resume(session, lane, Decision(**decision)))


@click.group(cls=Branch)
def workers() -> None:
    """Who runs jobs."""


@workers.command("list")
@click.pass_context
def list_workers(ctx: click.Context) -> None:
    """List the workers that were seen lately.

    \b
    Example:
      jobsctl workers list
    """
    from jobsctl.admin import lanes as work
    from jobsctl.session import run

    run(settings_of(ctx), work.list_workers)
