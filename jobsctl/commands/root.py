"""The root of the command line."""

import click

from jobsctl.commands.admin import lanes, tenants, workers
from jobsctl.commands.bulk import bulk
from jobsctl.commands.jobs import jobs
from jobsctl.commands.keys import keys
from jobsctl.commands.options import global_options
from jobsctl.commands.service import completion, explain, health, migrate, verify


@click.group(
    params=global_options(with_defaults=True), context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="hourglass", message="%(prog)s %(version)s")
def root() -> None:
    """Operate hourglass: durable LLM jobs behind one deadline budget.

    The global options may stand before a command or after it. Answers go to stdout, remarks and errors
    (`REASON: message`) to stderr.

    \b
    Examples:
      jobsctl jobs create --model smollm2-135m --prompt "Why is the sky blue?"
      jobsctl jobs watch 01a22d49-b7d7-7075-b32c-ecffb9470433
      jobsctl explain 01a22d49-b7d7-7075-b32c-ecffb9470433
      jobsctl verify --server jobs.internal:50051

    \b
    Exit codes:
      0    done
      1    refused or failed
      2    not typed as it has to be
      3    nobody answered in time: the same may work later
      130  interrupted
      141  whoever read the answer stopped reading
    """


for command in (jobs, explain, tenants, keys, lanes, workers, bulk, verify, health, migrate, completion):
    root.add_command(command)
