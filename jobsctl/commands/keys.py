"""`jobsctl keys`: by what tenants call."""

from datetime import datetime
from typing import Final

import click

from jobsctl.commands.options import Branch, recorded, settings_of
from jobsctl.commands.values import MOMENT

SCOPES: Final = ("read", "read-content", "write", "admin")


@click.group(cls=Branch)
def keys() -> None:
    """API keys of tenants."""


@keys.command("create")
@click.argument("tenant_id", metavar="TENANT")
@click.argument("user_id", metavar="USER")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice(SCOPES),
    help="What it may do; repeatable. None contains another.",
)
@click.option("--expires", "expire_time", type=MOMENT, help="When it ends by itself: a time, or +90d.")
@recorded
@click.pass_context
def create_key(
    ctx: click.Context,
    /,
    tenant_id: str,
    user_id: str,
    scopes: tuple[str, ...],
    expire_time: datetime | None,
    **decision: str,
) -> None:
    """Make a key by which a user of a tenant calls. Its secret is printed, and never again.

    \b
    Example:
      jobsctl keys create acme batch --scope read --scope write --expires +90d --reason "signed today" > key
    """
    from jobsctl.admin import keys as work
    from jobsctl.decision import Decision
    from jobsctl.session import run

    made = Decision(**decision)
    run(
        settings_of(ctx),
        lambda session: work.create(
            session, tenant_id, user_id, scopes=scopes, expire_time=expire_time, decision=made
        ),
    )


@keys.command("list")
@click.argument("tenant_id", metavar="TENANT")
@click.pass_context
def list_keys(ctx: click.Context, /, tenant_id: str) -> None:
    """List the keys of a tenant, without their secrets.

    \b
    Example:
      jobsctl keys list acme
    """
    from jobsctl.admin import keys as work
    from jobsctl.session import run

    run(settings_of(ctx), lambda session: work.list_keys(session, tenant_id))


@keys.command("revoke")
@click.argument("tenant_id", metavar="TENANT")
@click.argument("key_id", metavar="KEY")
@recorded
@click.pass_context
def revoke_key(ctx: click.Context, /, tenant_id: str, key_id: str, **decision: str) -> None:
    """End a key for good. Servers that saw it a moment ago take it a few seconds longer.

    \b
    Example:
      jobsctl keys revoke acme 01a22d49b7d77075 --reason "it leaked"
    """
    from jobsctl.admin import keys as work
    from jobsctl.decision import Decision
    from jobsctl.session import run

    made = Decision(**decision)
    run(settings_of(ctx), lambda session: work.revoke(session, tenant_id, key_id, made))
