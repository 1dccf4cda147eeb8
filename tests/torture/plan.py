"""What happens when and to whom: a pure function of the seed and the length of the run.

Nothing is left to chance that has to happen: faults and jobs are dealt out in fixed numbers, each in its own
slice of time; the seed decides the order, the moments and the details.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from random import Random
from typing import Final, TypeVar

from tests.torture.kinds import Kind, often
from tests.torture.planned_jobs import Submission, probes, submissions

PRICING: Final = "pricing"
WORKERS: Final = ("worker-1", "worker-2", "worker-3")
SERVERS: Final = ("jobs-1", "jobs-2")
LEAD: Final = 1.0
"""Seconds before the first fault."""
TAIL: Final = 4.0
"""Seconds after the last one begins, at least."""

Item = TypeVar("Item")


class Track(StrEnum):
    """Disturbances of one track come one after the other; tracks go on at the same time."""

    POSTGRES = "postgres"
    COMMITS = "commits"
    SILENCE = "silence"
    WAKE_UPS = "wake-ups"
    FUNDS = "funds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """One fault.

    at: seconds after the start, not earlier. track: see Track; a process's track has its name.
    targets: processes, the first that can be struck. duration: of the fault itself, seconds.
    """

    at: float
    track: str
    kind: Kind
    targets: Sequence[str]
    duration: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A whole run. probes: jobs that are created while their tenant's funds are empty, one each time."""

    seed: int
    seconds: float
    disturbances: Sequence[Disturbance]
    submissions: Sequence[Submission]
    probes: Sequence[Submission]

    def track(self, name: str) -> Sequence[Disturbance]:
        """The disturbances of one track, in order."""
        return [each for each in self.disturbances if each.track == name]

    def lines(self) -> Sequence[str]:
        """For a reader, in order of time."""
        entries = [(d.at, "fault", asdict(d)) for d in self.disturbances]
        entries += [(s.at, "job", asdict(s)) for s in self.submissions]
        entries += [(self.seconds, "probe", asdict(s)) for s in self.probes]
        entries.sort(key=lambda entry: entry[0])
        return [f"{at:8.3f} {what} {json.dumps(details)}" for at, what, details in entries]


# How often in `kinds.FULL_LENGTH` seconds. A process's own track takes them one after the other.
_OF_WORKERS: Final = {Kind.KILL_WORKER: 14, Kind.STALL_WORKER: 14, Kind.TERMINATE: 8}
_OF_SERVERS: Final = {Kind.KILL_JOBS: 13, Kind.STALL_JOBS: 12, Kind.TERMINATE: 6}
_OF_PRICING: Final = {Kind.KILL_PRICING: 12}
_COMMITS: Final = {Kind.COMMIT_LOST: 13, Kind.COMMIT_REPLY_LOST: 13, Kind.COMMIT_REPLY_LATE: 13}
_WAKE_UPS: Final = {Kind.WAKE_UPS_CUT: 13, Kind.WAKE_UPS_SILENT: 13}
_DURATIONS: Final = {
    Kind.KILL_WORKER: (0.0, 1.5),
    Kind.KILL_JOBS: (0.0, 1.0),
    Kind.KILL_PRICING: (0.0, 1.0),
    Kind.STALL_JOBS: (0.5, 3.0),
    Kind.TERMINATE: (0.0, 0.5),
    # Added to the lease.
    Kind.STALL_WORKER: (0.7, 2.0),
    Kind.RESTART_POSTGRES: (0.0, 1.0),
    Kind.COMMIT_LOST: (0.1, 1.2),
    Kind.COMMIT_REPLY_LOST: (0.1, 1.2),
    Kind.COMMIT_REPLY_LATE: (0.2, 1.6),
    Kind.DATABASE_SILENT: (0.3, 5.0),
    Kind.WAKE_UPS_CUT: (0.0, 0.0),
    Kind.WAKE_UPS_SILENT: (1.0, 4.0),
    Kind.EMPTY_FUNDS: (0.5, 2.0),
}


def plan_of(seed: int, seconds: float) -> Plan:
    """The plan of a seed."""
    random = Random(f"{seed} faults")
    disturbances = [
        *_of_processes(random, WORKERS, _OF_WORKERS, seconds),
        *_of_processes(random, SERVERS, _OF_SERVERS, seconds),
        *_of_processes(random, [PRICING], _OF_PRICING, seconds),
        *_one_track(random, Track.POSTGRES, [Kind.RESTART_POSTGRES] * often(13, seconds), seconds),
        *_one_track(random, Track.COMMITS, _dealt(random, _COMMITS, seconds), seconds),
        *_one_track(random, Track.SILENCE, [Kind.DATABASE_SILENT] * often(12, seconds), seconds),
        *_one_track(random, Track.WAKE_UPS, _dealt(random, _WAKE_UPS, seconds), seconds),
        *_one_track(random, Track.FUNDS, [Kind.EMPTY_FUNDS] * often(13, seconds), seconds),
    ]
    jobs = submissions(Random(f"{seed} jobs"), seconds=seconds, start=LEAD / 2, tail=TAIL)
    emptied = sum(each.kind is Kind.EMPTY_FUNDS for each in disturbances)
    return Plan(
        seed=seed,
        seconds=seconds,
        disturbances=sorted(disturbances, key=lambda each: each.at),
        submissions=jobs,
        probes=probes(random, number=emptied, first=len(jobs)),
    )


def _dealt(random: Random, numbers: dict[Kind, int], seconds: float) -> list[Kind]:
    kinds = [kind for kind, number in numbers.items() for _ in range(often(number, seconds))]
    random.shuffle(kinds)
    return kinds


def _of_processes(
    random: Random, names: Sequence[str], numbers: dict[Kind, int], seconds: float
) -> list[Disturbance]:
    """Each process gets its share of each kind, in an order of its own."""
    hands: dict[str, list[Kind]] = {name: [] for name in names}
    turns = list(names)
    random.shuffle(turns)
    kinds = [kind for kind, number in numbers.items() for _ in range(often(number, seconds))]
    for turn, kind in enumerate(kinds):
        hands[turns[turn % len(turns)]].append(kind)
    found: list[Disturbance] = []
    for name, hand in hands.items():
        random.shuffle(hand)
        found += _spread(random, name, hand, [[name]] * len(hand), seconds)
    return found


def _one_track(random: Random, track: Track, kinds: list[Kind], seconds: float) -> list[Disturbance]:
    targets = [random.sample(WORKERS + SERVERS, len(WORKERS + SERVERS)) for _ in kinds]
    return _spread(random, track, kinds, targets, seconds)


def _spread(
    random: Random, track: str, kinds: list[Kind], targets: Sequence[Sequence[str]], seconds: float
) -> list[Disturbance]:
    """One in each of as many slices of time, in its first half."""
    slice_ = (seconds - LEAD - TAIL) / max(1, len(kinds))
    return [
        Disturbance(
            at=round(LEAD + slice_ * (number + random.uniform(0.0, 0.5)), 3),
            track=track,
            kind=kind,
            targets=tuple(targets[number]),
            duration=round(random.uniform(*_DURATIONS[kind]), 3),
        )
        for number, kind in enumerate(kinds)
    ]
