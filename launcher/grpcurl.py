"""The grpcurl lines that `make up` prints and the README shows. Pure."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from launcher.components import REAL_MODEL

SERVICE: Final = "hourglass.jobs.v1.JobService"
PROMPT: Final = "Why is the sky blue?"
MAX_TOKENS: Final = 48
MAX_SHORT_TOKENS: Final = 8
_PICK_JOB_ID: Final = """sed -nE 's/.*"job(_id|Id)": "(.*)".*/\\2/p'"""  # grpcurl's versions differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line for a shell, and what it does."""

    purpose: str
    command: str


def grpcurl_lines(program: str, address: str, *, key: str) -> Sequence[Line]:
    """A tour in lines to paste, in this order. `key` names the job that they create."""
    call = f"{program} -plaintext"
    messages = [{"role": "ROLE_USER", "content": PROMPT}]
    price = {"models": [REAL_MODEL, "simulated-fast"], "messages": messages}
    spec = {"model": REAL_MODEL, "messages": messages, "max_output_token_count": MAX_TOKENS}
    create = _data({"idempotency_key": key, "spec": spec})
    short = _data({"model": REAL_MODEL, "messages": messages, "max_output_token_count": MAX_SHORT_TOKENS})
    job = '-d "{\\"job_id\\": \\"$JOB\\"}"'
    read = '-d "{\\"job_id\\": \\"$JOB\\", \\"include_attempts\\": true, \\"include_content\\": true}"'
    return (
        Line(purpose="what is served", command=f"{call} {address} list"),
        Line(purpose="what a method takes", command=f"{call} {address} describe {SERVICE}.CreateJob"),
        Line(purpose="what it would cost", command=f"{call} {_data(price)} {address} {SERVICE}/Quote"),
        Line(
            purpose="create a job under a deadline of 2 s; -v shows its budget-ledger",
            command=f"{call} -v -max-time 2 {create} {address} {SERVICE}/CreateJob",
        ),
        Line(
            purpose="the same key is the same job: remember its id",
            command=f"JOB=$({call} {create} {address} {SERVICE}/CreateJob | {_PICK_JOB_ID})",
        ),
        Line(purpose="watch it, from its first event", command=f"{call} {job} {address} {SERVICE}/WatchJob"),
        Line(purpose="read it: result, attempts, money", command=f"{call} {read} {address} {SERVICE}/GetJob"),
        Line(
            purpose="a short answer that nobody keeps: no job, one deadline over all hops",
            command=f"{call} -v -max-time 10 {short} {address} {SERVICE}/Generate",
        ),
    )


def _data(message: Mapping[str, Any]) -> str:
    return f"-d {shlex.quote(json.dumps(message))}"
