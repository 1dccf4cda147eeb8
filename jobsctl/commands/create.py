"""`jobsctl jobs create` and `jobsctl jobs quote`: what is asked, in flags or in a file."""

from collections.abc import Callable
from typing import Any, Final

import click

from jobsctl.commands.options import Leaf, settings_of, text_of
from jobsctl.commands.values import AMOUNT, DURATION, LABEL, MOMENT

STDIN: Final = "-"
_POLICIES: Final = ("retry", "hold", "fail")
_SPEC_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option("--model", help="The model, as the price list names it."),
    click.option("--prompt", help="What is asked; - reads it from stdin."),
    click.option("--system", help="Instructions to the model."),
    click.option("--max-output-tokens", type=int, help="The most output tokens."),
    click.option("--temperature", type=float, help="0..2."),
    click.option("--top-p", type=float, help="More than 0, at most 1."),
    click.option("--stop", multiple=True, help="A text that ends the answer; repeatable."),
    click.option("--seed", type=int, help="For providers that can repeat an answer."),
    click.option("--max-charge", type=AMOUNT, help="The most that the tenant pays."),
    click.option("--provider-cost-limit", type=AMOUNT, help="The most that all attempts may cost."),
    click.option("--attempt-timeout", type=DURATION, help="The time of one attempt, such as 90s."),
    click.option("--max-attempts", type=int, help="How many attempts may reach the provider."),
    click.option(
        "--on-unknown",
        type=click.Choice(_POLICIES),
        help="When nobody knows whether an attempt ran.",
    ),
    click.option("--priority", type=int, help="Within the tenant: higher runs first."),
    click.option("--schedule-time", type=MOMENT, help="Not before: a time, or +10m."),
    click.option("--queue-timeout", type=DURATION, help="How long it may wait, such as 24h."),
    click.option("--label", "labels", multiple=True, type=LABEL, help="key=value; repeatable."),
)


def _spec_options(command: Any) -> Any:
    for option in reversed(_SPEC_OPTIONS):
        command = option(command)
    return command


@click.command(cls=Leaf)
@click.option("--spec", "spec_file", metavar="FILE", help="A JobSpec in proto JSON; - is stdin. Flags win.")
@_spec_options
@click.option("--quote-id", default="", help="Charge by this quote.")
@click.option("--key", default="", help="Idempotency key: the same again is the same job. Fresh when absent.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but the job's id.")
@click.pass_context
def create(ctx: click.Context, /, **given: Any) -> None:
    """Make a job, once a key.

    \b
    Examples:
      jobsctl jobs create --model smollm2-135m --prompt "Why is the sky blue?" --max-output-tokens 48
      jobsctl jobs create --spec job.json --label batch=7 --key batch-7-1 --timeout 2
    """
    from jobsctl.jobs import creating
    from jobsctl.session import run

    rest = {name: given.pop(name) for name in ("key", "quote_id", "quiet")}
    source = given.pop("spec_file")
    if source == STDIN == given["prompt"]:
        raise click.UsageError("--spec - and --prompt - cannot both read stdin.")
    text = None if source is None else text_of("--spec", source)
    creation = creating.Creation(flags=_flags(given), text=text, **rest)
    run(settings_of(ctx), lambda session: creating.create(session, creation))


@click.command(cls=Leaf)
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@click.option("--prompt", help="What is to be asked; - reads it from stdin.")
@click.option("--system", help="Instructions to the model.")
@click.option("--input-tokens", type=int, help="An upper bound of the input tokens, instead of --prompt.")
@click.option("--max-output-tokens", type=int, help="The most output tokens.")
@click.pass_context
def quote(ctx: click.Context, /, models: tuple[str, ...], input_tokens: int | None, **given: Any) -> None:
    """Price the same question for up to 16 models; one create may use the quote.

    \b
    Example:
      jobsctl jobs quote smollm2-135m simulated-fast --prompt "Why is the sky blue?"
    """
    from jobsctl.jobs import creating
    from jobsctl.session import run

    question = creating.Question(models=models, flags=_flags(given), input_tokens=input_tokens)
    run(settings_of(ctx), lambda session: creating.quote(session, question))


def _flags(given: dict[str, Any]) -> Any:
    from jobsctl.jobs.spec import SpecFlags

    if given.get("prompt") == STDIN:
        given["prompt"] = text_of("--prompt", STDIN)
    if "labels" in given:
        given["labels"] = dict(given["labels"])
    return SpecFlags(**given)
