"""The jobs of a run: what each asks for, and what its caller, its watchers and its operator do. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from tests.torture.kinds import Kind, often

TENANTS: Final = ("acme", "zeta", "narrow", "thrift")
NARROW: Final = "narrow"
"""Runs three jobs at once."""
THRIFT: Final = "thrift"
"""Whose funds run empty."""
RETRY, HOLD, FAIL = "RETRY", "HOLD", "FAIL"
POLICIES: Final = (RETRY, RETRY, HOLD, FAIL)
_SHARES: Final = (4, 3, 1, 2)
_PATIENT: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWatch:
    """One reader. after: seconds from the create. server: 0 or 1.

    cuts: after so many events it moves to the other server.
    """

    after: float
    server: int
    cuts: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One job and what is done to it. Times are seconds, counted from the create unless it says `at`.

    at: from the start of the run. generous: it may cost its provider more than the default.
    server: 0 or 1, where it is created first. twin: at both at once.
    abandoned: its caller leaves the first try after so long. replay: when it is created again, elsewhere.
    reused: whether its key is then tried with another spec. cancel: when it is cancelled.
    retries: how often it is retried after it FAILED. resolution, patience: what is decided about it once it
    has been HELD for so long.
    """

    number: int
    at: float
    tenant: str
    model: str
    max_output_tokens: int
    policy: str
    max_attempts: int
    priority: int
    generous: bool
    server: int
    twin: bool = False
    abandoned: float | None = None
    replay: float | None = None
    reused: bool = False
    cancel: float | None = None
    retries: int = 1
    resolution: str = RETRY
    patience: float = 1.0
    watches: Sequence[PlannedWatch] = ()

    @property
    def key(self) -> str:
        """Its idempotency key."""
        return f"job-{self.number}"

    @property
    def prompt(self) -> str:
        """What it asks; no other job asks the same."""
        return f"Question {self.number}."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recipe:
    """A kind of job. number: in FULL_LENGTH seconds. model: with {times} and {tokens} to be filled in."""

    number: int
    model: str
    most_times: int = 1


_RECIPES: Final = (
    _Recipe(number=160, model="simulated-fast:tokens={tokens}"),
    _Recipe(number=160, model="simulated:tokens={tokens},tps=60"),
    # Long enough to be run by two at once when the first one is taken for dead.
    _Recipe(number=130, model="simulated:tokens={tokens},tps=8"),
    _Recipe(number=60, model="simulated-slow:tokens={tokens},tps=15,first=0.3"),
    _Recipe(number=25, model="simulated:tokens={tokens},tps=30,kept=1"),
    _Recipe(number=18, model="simulated-429:times=1,retry_after=1,tokens={tokens}"),
    _Recipe(number=16, model="simulated-401:times=1,tokens={tokens}"),
    _Recipe(number=24, model="simulated-400:times=1,tokens={tokens}"),
    _Recipe(number=20, model="simulated-500:times={times},tokens={tokens}", most_times=2),
    _Recipe(number=18, model="simulated-reset-before:times={times},tokens={tokens}", most_times=2),
    _Recipe(number=24, model="simulated-reset-mid:times={times},tokens={tokens}", most_times=2),
    _Recipe(number=16, model="simulated-reset-mid:times=1,kept=1,tokens={tokens}"),
    _Recipe(number=16, model="simulated-stall-first:times=1,tokens={tokens}"),
    _Recipe(number=16, model="simulated-stall-mid:times=1,tokens={tokens}"),
    _Recipe(number=18, model="simulated-error-mid:times={times},tokens={tokens}", most_times=2),
    _Recipe(number=18, model="simulated-cut-mid:times=1,tokens={tokens}"),
    _Recipe(number=20, model="simulated-no-usage:tokens={tokens}"),
)
PRESET_KINDS: Final = {
    "simulated-429": Kind.REFUSED_RATE,
    "simulated-401": Kind.REFUSED_KEY,
    "simulated-400": Kind.REFUSED_REQUEST,
    "simulated-500": Kind.SERVER_ERROR,
    "simulated-reset-before": Kind.RESET_BEFORE,
    "simulated-reset-mid": Kind.RESET_MID,
    "simulated-stall-first": Kind.STALL_BEFORE,
    "simulated-stall-mid": Kind.STALL_MID,
    "simulated-error-mid": Kind.ERROR_MID,
    "simulated-cut-mid": Kind.CUT_MID,
    "simulated-no-usage": Kind.NO_USAGE,
    "simulated-slow": Kind.SLOW,
}
"""Which fault a preset of the simulated provider is."""


def probes(random: Random, *, number: int, first: int) -> Sequence[Submission]:
    """Jobs of the thrifty tenant for when its funds are empty, each with a number of its own."""
    model = "simulated-fast:tokens=8"
    return [
        replace(_job(random, first + n, model, at=0.0), tenant=THRIFT, max_output_tokens=1000)
        for n in range(number)
    ]


def submissions(random: Random, *, seconds: float, start: float, tail: float) -> Sequence[Submission]:
    """All jobs, in order of time."""
    models = [_model(random, recipe) for recipe in _RECIPES for _ in range(often(recipe.number, seconds))]
    random.shuffle(models)
    slice_ = (seconds - start - tail) / len(models)
    jobs = [
        _job(random, number, model, at=start + slice_ * (number + random.random()))
        for number, model in enumerate(models)
    ]
    _deal(random, jobs, seconds)
    return jobs


def _model(random: Random, recipe: _Recipe) -> str:
    tokens = random.randint(8, 40)
    return recipe.model.format(tokens=tokens, times=random.randint(1, recipe.most_times))


def _job(random: Random, number: int, model: str, *, at: float) -> Submission:
    # Prices are worst cases: a thrifty tenant's jobs reserve much more than they cost.
    tenant = random.choices(TENANTS, _SHARES)[0]
    return Submission(
        number=number,
        at=round(at, 3),
        tenant=tenant,
        model=model,
        max_output_tokens=random.choice((64, 200, 1000)),
        policy=random.choice(POLICIES),
        max_attempts=random.choice((2, 4, _PATIENT, _PATIENT)),
        priority=random.randint(-5, 5),
        generous=random.random() < 0.8,
        server=random.randrange(2),
        retries=random.choice((0, 1, 3)),
        resolution=random.choice((RETRY, RETRY, RETRY, FAIL)),
        patience=round(random.uniform(0.2, 3.0), 3),
    )


def _deal(random: Random, jobs: list[Submission], seconds: float) -> None:
    """Give out, to jobs that suit it, what has to happen so many times."""
    cancelled = _some(random, jobs, often(45, seconds), lambda job: "tps=" in job.model)
    for index in cancelled:
        jobs[index] = replace(jobs[index], cancel=round(random.uniform(0.0, 0.7), 3))
    for index in _some(random, jobs, often(70, seconds)):
        jobs[index] = replace(jobs[index], abandoned=round(random.uniform(0.0, 0.012), 4))
    for index in _some(random, jobs, often(26, seconds)):
        jobs[index] = replace(jobs[index], twin=True)
    for index in _some(random, jobs, often(60, seconds)):
        jobs[index] = replace(
            jobs[index], replay=round(random.uniform(0.0, 20.0), 3), reused=random.random() < 0.5
        )
    for index in _some(random, jobs, often(110, seconds), lambda job: "tps=" in job.model):
        jobs[index] = replace(jobs[index], watches=_watches(random, random.choice((1, 1, 2))))
    for index in _some(random, jobs, often(40, seconds), lambda job: "times=" in job.model):
        jobs[index] = replace(jobs[index], watches=_watches(random, 1))
    _deal_decisions(random, jobs)


def _deal_decisions(random: Random, jobs: list[Submission]) -> None:
    """Refused requests fail until an operator retries them; half of the unknown ones without a kept answer
    are held."""
    for index, job in enumerate(jobs):
        preset = job.model.partition(":")[0]
        if preset == "simulated-400":
            jobs[index] = replace(job, retries=max(1, job.retries))
        elif preset in {"simulated-reset-mid", "simulated-error-mid", "simulated-cut-mid"} and index % 2:
            jobs[index] = replace(job, policy=HOLD)


def _some(
    random: Random, jobs: list[Submission], number: int, suits: Callable[[Submission], bool] = lambda _: True
) -> list[int]:
    """Different jobs, spread over the run: one from each of as many equal parts of those that suit."""
    found = [index for index, job in enumerate(jobs) if suits(job)]
    number = min(number, len(found))
    part = len(found) / number
    return [found[random.randrange(math.floor(part * n), math.floor(part * (n + 1)))] for n in range(number)]


def _watches(random: Random, number: int) -> Sequence[PlannedWatch]:
    return tuple(
        PlannedWatch(
            after=round(random.choice((0.0, random.uniform(0.0, 4.0))), 3),
            server=random.randrange(2),
            cuts=tuple(random.randint(1, 12) for _ in range(random.randint(0, 3))),
        )
        for _ in range(number)
    )
