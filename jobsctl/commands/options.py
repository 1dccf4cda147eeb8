"""Options that commands share. The global ones may stand before a command or after it; the last counts."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource
from typing_extensions import override

from jobsctl.commands.values import DURATION, LIFETIME
from jobsctl.exits import ExitCode, Failure
from jobsctl.settings import Output, Settings

if TYPE_CHECKING:
    from transport.bearer import Token
    from transport.files import TlsFiles

Command = TypeVar("Command", bound=Callable[..., Any])

_FILES: Final = {"certificate": "tls_cert", "key": "tls_key", "authorities": "tls_ca"}
DEFAULT_SERVER: Final = "localhost:50051"


class GlobalOption(click.Option):
    """An option of every command. It goes into the settings, not to the command."""

    def __init__(self, *names: str, **attributes: Any) -> None:
        super().__init__(names, expose_value=False, callback=_keep, **attributes)


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value is not None:
        ctx.find_root().ensure_object(dict)[param.name] = value


class TokenOption(GlobalOption):
    """Only the environment gives a token: every process of the machine can read a command line, and shells
    keep it in their history."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__("--token", hidden=True, metavar="TOKEN", **attributes)
        self.callback = _keep_from_environment


def _keep_from_environment(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE:
        raise click.UsageError("A command line is no place for a token: use JOBSCTL_TOKEN or --token-file.")
    _keep(ctx, param, value)


def global_options(*, with_defaults: bool) -> list[click.Parameter]:
    """The options. Only before the command do they take their defaults, so that these win over nothing."""

    def defaults(variable: str, default: Any = None) -> dict[str, Any]:
        if not with_defaults:
            return {"default": None}
        return {
            "default": default,
            "envvar": variable,
            "show_envvar": True,
            "show_default": default is not None,
        }

    return [
        GlobalOption(
            "--server",
            metavar="HOST:PORT",
            help="Whom to call.",
            **defaults("JOBSCTL_SERVER", DEFAULT_SERVER),
        ),
        GlobalOption(
            "--tls",
            is_flag=True,
            flag_value=True,
            help="Speak TLS. The other options of TLS say so, too.",
            **defaults("JOBSCTL_TLS"),
        ),
        GlobalOption(
            "--tls-ca",
            metavar="FILE",
            help="Whom to trust, in PEM; gRPC's own authorities when absent.",
            **defaults("JOBSCTL_TLS_CA"),
        ),
        GlobalOption(
            "--tls-cert",
            metavar="FILE",
            help="The certificate to show, in PEM.",
            **defaults("JOBSCTL_TLS_CERT"),
        ),
        GlobalOption("--tls-key", metavar="FILE", help="Its key, in PEM.", **defaults("JOBSCTL_TLS_KEY")),
        GlobalOption(
            "--token-file",
            metavar="FILE",
            help="Where the token or API key is that says who calls; or JOBSCTL_TOKEN, which holds it.",
            **defaults("JOBSCTL_TOKEN_FILE"),
        ),
        GlobalOption(
            "--plaintext-token",
            is_flag=True,
            flag_value=True,
            default=None,
            help="Send the token in the clear to another machine: where something else encrypts.",
        ),
        TokenOption(**defaults("JOBSCTL_TOKEN")),
        GlobalOption(
            "--tenant", help="As whose; the server's default when absent.", **defaults("JOBSCTL_TENANT")
        ),
        GlobalOption("--user", help="As whom; stands in the record.", **defaults("JOBSCTL_USER")),
        GlobalOption(
            "--timeout",
            type=DURATION,
            help="The deadline of the whole command, such as 2 or 500ms. Absent: the longest of each call.",
            **defaults("JOBSCTL_TIMEOUT"),
        ),
        GlobalOption(
            "-o",
            "--output",
            type=click.Choice([one.value for one in Output]),
            help="For people, or proto JSON for programs (streams: one object a line).",
            **defaults("JOBSCTL_OUTPUT", Output.TABLE.value),
        ),
        GlobalOption(
            "--ledger",
            is_flag=True,
            flag_value=True,
            default=None,
            help="Draw where the time of each call went, on stderr.",
        ),
    ]


class Leaf(click.Command):
    """A command that also takes the global options, told apart in its help."""

    def __init__(self, *arguments: Any, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.params.extend(global_options(with_defaults=False))

    @override
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, wanted in (("Options", False), ("Global options", True)):
            options = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
            shown = [p for p in options if isinstance(p, GlobalOption) is wanted]
            records = [record for param in shown if (record := param.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Branch(click.Group):
    """A group of such commands."""

    command_class = Leaf
    group_class = type


def settings_of(ctx: click.Context) -> Settings:
    """What the global options say."""
    said = ctx.find_root().ensure_object(dict)
    return Settings(
        server=said.get("server", DEFAULT_SERVER),
        tls=_tls(said),
        token=_token(said),
        tenant=said.get("tenant", ""),
        user=said.get("user", ""),
        timeout=said.get("timeout"),
        output=Output(said.get("output", Output.TABLE)),
        ledger=bool(said.get("ledger")),
    )


def _tls(said: Mapping[str, Any]) -> "TlsFiles | None":
    files = {name: Path(said[option]) for name, option in _FILES.items() if said.get(option)}
    if not files and not said.get("tls"):
        return None
    if ("certificate" in files) != ("key" in files):
        raise click.UsageError("--tls-cert and --tls-key come together.")
    from transport.files import TlsFiles

    return TlsFiles(**files)


def _token(said: Mapping[str, Any]) -> "Token | None":
    text, file = said.get("token"), said.get("token_file")
    if not text and not file:
        return None
    from transport.bearer import WrongToken, is_local, token_of

    server = said.get("server", DEFAULT_SERVER)
    if _tls(said) is None and not said.get("plaintext_token") and not is_local(server):
        raise click.UsageError(f"A token to {server} takes --tls, or --plaintext-token.")
    try:
        if file == "-":
            return token_of(text_of("--token-file", file).strip())
        return token_of(Path(file) if file else text)
    except WrongToken as error:
        raise click.BadParameter(str(error), param_hint="--token-file") from error


def recorded(command: Command) -> Command:
    """--reason and --request-id, of every change that is recorded."""
    with_id = click.option(
        "--request-id",
        default="",
        help="Names the change: the same again changes nothing. Fresh when absent.",
    )(command)
    return click.option("--reason", required=True, help="Why; stands in the record.")(with_id)


def limits(command: Command) -> Command:
    """The limits of a tenant, and how long its rows are kept."""
    for option in (
        click.option(
            "--keep",
            "lifetimes",
            multiple=True,
            type=LIFETIME,
            help="How long rows of a class are kept, such as result=7d; repeatable. Replaces all it had.",
        ),
        click.option("--weight", type=int, help="Its share among tenants, 1..1000."),
        click.option(
            "--request-rate",
            type=float,
            help="Requests a second to each server; 0: the service's own setting.",
        ),
        click.option("--max-queued", type=int, help="Jobs that may wait."),
        click.option("--max-running", type=int, help="Jobs that may run at once."),
        click.option("--display-name", help="For people."),
    ):
        command = option(command)
    return command


def agreed(question: str, *, yes: bool) -> bool:
    """Whether to go on: --yes, or the answer of whoever sits there. Raises Failure where nobody does."""
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Failure("CONFIRMATION_NEEDED", "nothing was done; it takes --yes", code=ExitCode.USAGE)
    return click.confirm(question, default=False, err=True)


def text_of(flag: str, source: str) -> str:
    """The text of a file; `-` is stdin. Raises a usage error that names the flag."""
    try:
        with click.open_file(source, encoding="utf-8") as file:
            return str(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(str(error), param_hint=flag) from error
