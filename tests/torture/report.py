"""What came of a run: as a table for a reader and as JSON for a program."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.torture.facts import Facts
from tests.torture.kinds import Kind, least_accepted, least_strikes
from tests.torture.planned_jobs import PRESET_KINDS
from tests.torture.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A run. memory: the most each kind of process used, in MiB."""

    seed: int
    seconds: float
    took: float
    strikes: Mapping[str, int]
    jobs: Mapping[str, int]
    attempts: Mapping[str, int]
    money: Mapping[str, Mapping[str, str]]
    provider_cost: str
    memory: Mapping[str, int]
    notes: Mapping[str, int]
    broken: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {name: getattr(self, name) for name in self.__slots__} | {"held": not self.broken}

    def write(self, path: Path) -> None:
        """As JSON."""
        path.write_text(json.dumps(self.to_json(), indent=2) + "\n", encoding="utf-8")

    def lines(self) -> Sequence[str]:
        """For a reader."""
        least = least_strikes(self.seconds)
        return [
            f"torture: seed {self.seed}, {self.seconds:g} s of faults, {self.took:.0f} s in all",
            *_table(f"strikes (each at least {least})", self.strikes),
            *_table(f"jobs (at least {least_accepted(self.seconds)} accepted)", self.jobs),
            *_table("attempts", self.attempts),
            *_table("money", {tenant: _told(amounts) for tenant, amounts in self.money.items()}),
            f"  provider cost  {self.provider_cost}",
            *_table("memory, MiB at most", self.memory),
            *_table("also", self.notes),
            *(f"BROKEN  {what}" for what in self.broken),
            "every promise held"
            if not self.broken
            else f"{len(self.broken)} broken; SEED={self.seed} replays the plan",
        ]


def count_provider_strikes(facts: Facts, tally: Tally) -> None:
    """How often the provider did what a job's model asked it for."""
    for request in facts.requests:
        kind = PRESET_KINDS.get(request["model"].partition(":")[0])
        if kind is not None and request["state"] == _struck_state(kind):
            tally.strikes[kind] += 1


def _struck_state(kind: Kind) -> str:
    match kind:
        case Kind.NO_USAGE | Kind.SLOW:
            return "finished"
        case Kind.STALL_BEFORE | Kind.STALL_MID:
            return "closed_by_client"
        case _:
            return "failed"


def shortfalls(facts: Facts, tally: Tally, seconds: float) -> Sequence[str]:
    """Kinds that struck too rarely, and too few accepted jobs: such a run has shown nothing."""
    least, accepted = least_strikes(seconds), _jobs(facts)["SUCCEEDED"]
    found = [f"{kind} struck {tally.strikes[kind]} times" for kind in Kind if tally.strikes[kind] < least]
    if accepted < least_accepted(seconds):
        found.append(f"only {accepted} jobs were accepted")
    return found


def report_of(facts: Facts, tally: Tally, *, seed: int, seconds: float, memory: Mapping[str, int]) -> Report:
    """Put together."""
    attempts = [each for many in facts.attempts.values() for each in many]
    return Report(
        seed=seed,
        seconds=seconds,
        took=tally.elapsed,
        strikes={str(kind): tally.strikes[kind] for kind in Kind},
        jobs=_jobs(facts),
        attempts=Counter(f"{each['outcome']}/{each['cause']}" for each in attempts),
        money={row["tenant_id"]: _amounts(row) for row in facts.funds},
        provider_cost=_text(sum((each["cost"] for each in attempts), Decimal(0))),
        memory=memory,
        notes=tally.notes,
        broken=tuple(tally.broken),
    )


def _jobs(facts: Facts) -> Counter[str]:
    return Counter(row["state"] for row in facts.jobs)


def _amounts(row: Mapping[str, Any]) -> dict[str, str]:
    return {name: _text(row[name]) for name in ("funded", "available", "reserved", "captured")}


def _told(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items())


def _text(amount: Decimal) -> str:
    return f"{amount:.9f}"


def _table(title: str, values: Mapping[str, Any]) -> list[str]:
    width = max((len(name) for name in values), default=0)
    return [title, *(f"  {name:{width}}  {values[name]}" for name in sorted(values))]
