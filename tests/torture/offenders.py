"""Everything about the jobs that broke a promise, for whoever has to find out why."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.torture.facts import Facts

_JOB_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def write_offenders(path: Path, facts: Facts, broken: Sequence[str]) -> None:
    """Rows, attempts, events, reservations and provider requests of every job that is named, as JSON."""
    named = {job_id for what in broken for job_id in _JOB_ID.findall(what)}
    found = {job["job_id"]: _story(facts, job["job_id"]) for job in facts.jobs if job["job_id"] in named}
    if found:
        path.write_text(json.dumps(found, indent=2, default=str) + "\n", encoding="utf-8")


def _story(facts: Facts, job_id: str) -> dict[str, object]:
    attempts = facts.attempts[job_id]
    tokens = {each["run_token"] for each in attempts}
    return {
        "job": next(job for job in facts.jobs if job["job_id"] == job_id),
        "attempts": attempts,
        "events": facts.events[job_id],
        "reservations": facts.reservations[job_id],
        "requests": [each for each in facts.requests if each["key"] in tokens],
    }
