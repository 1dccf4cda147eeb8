"""Every invariant by its name, with what a page of it is and what kind of promise it is."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from types import MappingProxyType
from typing import Final

from jobs_store.invariants import invariant_sql

_ARGUMENTS: Final = re.compile(r" \$\d.*$")
_TABLE: Final = re.compile(r"\bhourglass\.([a-z_]+)\b(?!\()")


class Kind(StrEnum):
    """ALWAYS: holds at every commit. IN_TIME: holds while somebody does what is due (a reaper runs)."""

    ALWAYS = "ALWAYS"
    IN_TIME = "IN_TIME"


class Scope(StrEnum):
    """What pages are made of. Jobs and calls go by (tenant_id, id); a tenant's page is all that it has."""

    JOBS = "JOBS"
    UNFINISHED_JOBS = "UNFINISHED_JOBS"
    CALLS = "CALLS"
    TENANTS = "TENANTS"
    LANES = "LANES"
    TABLES = "TABLES"

    @property
    def of_tenants(self) -> bool:
        """False for what belongs to no tenant."""
        return self not in {Scope.LANES, Scope.TABLES}


class Given(StrEnum):
    """What a statement is told beside its page."""

    TRANSITIONS = "TRANSITIONS"
    OVERDUE = "OVERDUE"
    CALL_GRACE = "CALL_GRACE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """One promise; `file`: its statement, without the ending."""

    file: str
    scope: Scope
    kind: Kind = Kind.ALWAYS
    given: tuple[Given, ...] = ()

    @property
    def name(self) -> str:
        """What a program switches on; it does not change."""
        return self.file.upper()

    @property
    def sql(self) -> str:
        """The statement."""
        return invariant_sql(self.file)

    @property
    def promise(self) -> str:
        """What must hold, in sentences: the header of the statement, but what it says of its arguments."""
        header = takewhile(lambda line: line.startswith("-- "), self.sql.splitlines())
        return _ARGUMENTS.sub("", " ".join(line.removeprefix("-- ") for line in header))

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that are read, in alphabetical order."""
        return tuple(sorted(set(_TABLE.findall(self.sql))))


def _over(scope: Scope, *files: str) -> tuple[Invariant, ...]:
    return tuple(Invariant(file=file, scope=scope) for file in files)


def _in_time(scope: Scope, file: str, *given: Given) -> Invariant:
    return Invariant(file=file, scope=scope, kind=Kind.IN_TIME, given=given)


_ALL: Final = (
    *_over(
        Scope.TENANTS,
        "tenant_is_whole",
        "tenant_counts_its_jobs",
        "funds_balance",
        "funded_is_its_fundings",
        "funds_are_their_parts",
        "funding_is_audited",
        "decision_is_audited",
    ),
    *_over(Scope.LANES, "lane_counts_its_runs"),
    *_over(
        Scope.JOBS,
        "job_in_one_place",
        "job_rows_have_facts",
        "job_copies_match_facts",
        "job_has_tenant",
        "payload_has_key",
        "key_has_job",
        "quote_used_by_its_job",
        "reservation_adds_up",
        "reservation_is_quoted",
        "reservations_follow_state",
        "charge_has_cause",
        "overrun_is_beyond_capture",
        "result_of_success",
        "erased_content_is_gone",
        "attempts_are_numbered",
        "attempts_are_counted",
        "attempts_are_in_log",
        "one_attempt_succeeds",
        "attempt_cost_has_basis",
        "log_ends_with_row",
        "log_has_no_gaps",
        "epochs_name_their_past",
        "state_is_the_logs_last",
    ),
    Invariant(file="transitions_are_allowed", scope=Scope.JOBS, given=(Given.TRANSITIONS,)),
    *_over(
        Scope.UNFINISHED_JOBS,
        "job_row_fits_state",
        "unfinished_job_has_payload",
        "held_by_its_attempt",
        "job_cost_is_its_attempts",
    ),
    *_over(Scope.CALLS, "call_adds_up", "call_has_tenant"),
    _in_time(Scope.UNFINISHED_JOBS, "overdue_lease", Given.OVERDUE),
    _in_time(Scope.UNFINISHED_JOBS, "overdue_queue", Given.OVERDUE),
    _in_time(Scope.UNFINISHED_JOBS, "overdue_hold", Given.OVERDUE),
    _in_time(Scope.CALLS, "overdue_call", Given.OVERDUE, Given.CALL_GRACE),
    _in_time(Scope.TABLES, "overdue_partition"),
)

INVARIANTS: Final[Mapping[str, Invariant]] = MappingProxyType({each.name: each for each in _ALL})
"""In the order in which they are verified."""

ALWAYS: Final = tuple(name for name, each in INVARIANTS.items() if each.kind is Kind.ALWAYS)
"""The names of those that hold whether or not anybody reaps."""
