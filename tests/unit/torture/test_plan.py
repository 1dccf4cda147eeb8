"""A plan of torture is its seed's, and holds all that a run has to show."""

from collections import Counter
from itertools import pairwise

import pytest

from tests.torture.kinds import FULL_LENGTH, Kind, least_accepted, least_strikes
from tests.torture.plan import SERVERS, TAIL, WORKERS, Plan, plan_of
from tests.torture.planned_jobs import PRESET_KINDS

SEEDS = range(20)
BY_STATE = {Kind.RETRY_JOB, Kind.RESOLVE_JOB, Kind.WATCH_CUT}
"""Planned for each job, should it come to that."""


def planned(plan: Plan) -> Counter[Kind]:
    """How often each kind is planned."""
    jobs = plan.submissions
    found = Counter(disturbance.kind for disturbance in plan.disturbances)
    found.update(kind for job in jobs if (kind := PRESET_KINDS.get(job.model.partition(":")[0])))
    found[Kind.CANCEL] = sum(job.cancel is not None for job in jobs)
    found[Kind.ABANDON_CREATE] = sum(job.abandoned is not None for job in jobs)
    found[Kind.TWIN_CREATE] = sum(job.twin for job in jobs)
    found[Kind.REPLAY_CREATE] = sum(job.replay is not None for job in jobs)
    found[Kind.REUSE_KEY] = sum(job.reused for job in jobs)
    return found


def test_a_seed_always_makes_the_same_plan() -> None:
    assert plan_of(7, 60.0).lines() == plan_of(7, 60.0).lines()


def test_another_seed_makes_another_plan() -> None:
    assert plan_of(7, 60.0).lines() != plan_of(8, 60.0).lines()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("seconds", [FULL_LENGTH, 180.0])
def test_every_kind_is_planned_more_often_than_it_has_to_strike(seed: int, seconds: float) -> None:
    numbers = planned(plan_of(seed, seconds))
    rare = {kind: numbers[kind] for kind in set(Kind) - BY_STATE if numbers[kind] <= least_strikes(seconds)}
    assert {} == rare
    assert len(plan_of(seed, seconds).submissions) > 1.5 * least_accepted(seconds)


@pytest.mark.parametrize("seed", SEEDS)
def test_disturbances_of_one_track_leave_room_for_each_other(seed: int) -> None:
    plan = plan_of(seed, FULL_LENGTH)
    for track in {disturbance.track for disturbance in plan.disturbances}:
        for earlier, later in pairwise(plan.track(track)):
            assert earlier.at < later.at <= plan.seconds - TAIL


@pytest.mark.parametrize("seed", SEEDS)
def test_every_process_gets_its_share(seed: int) -> None:
    plan = plan_of(seed, FULL_LENGTH)
    for names in (WORKERS, SERVERS):
        hands = [len(plan.track(name)) for name in names]
        assert max(hands) - min(hands) <= 1


def test_every_job_has_a_key_and_a_question_of_its_own() -> None:
    plan = plan_of(1, FULL_LENGTH)
    jobs = [*plan.submissions, *plan.probes]
    assert len(jobs) == len({job.key for job in jobs}) == len({job.prompt for job in jobs})
