"""The jobsctl lines that `make up` prints and the README shows. Pure."""

from collections.abc import Sequence

from launcher.grpcurl import Line


def jobsctl_lines(program: str, address: str) -> Sequence[Line]:
    """Lines to paste after those for grpcurl: `$JOB` is the job that they created."""
    call = f"{program} --server {address}"
    return (
        Line(purpose="the story of that job, by the operator's tool", command=f"{call} explain $JOB"),
        Line(purpose="check every invariant on the live database", command=f"{call} verify"),
    )
