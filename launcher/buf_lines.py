"""The `buf curl` lines that `make up` prints and the README shows. Pure."""

from collections.abc import Sequence
from typing import Final

from launcher.grpcurl import SERVICE, Line

# What else is a URL with http:// would be called by HTTP 1.1, which gRPC cannot use.
CALL: Final = "curl --protocol grpc --http2-prior-knowledge"


def buf_lines(program: str, address: str) -> Sequence[Line]:
    """Lines to paste after those for grpcurl: `$JOB` is the job that they created."""
    call = f"{program} {CALL}"
    job = '-d "{\\"job_id\\": \\"$JOB\\"}"'
    return (
        Line(purpose="the same by buf: what is served", command=f"{call} --list-methods http://{address}"),
        Line(
            purpose="that job, within a second; -v shows the budget-ledger",
            command=f"{call} -v --timeout 1s {job} http://{address}/{SERVICE}/GetJob",
        ),
        Line(purpose="and its events", command=f"{call} {job} http://{address}/{SERVICE}/WatchJob"),
    )
