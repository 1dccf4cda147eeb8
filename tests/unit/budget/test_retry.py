import asyncio
import math
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget.core import Budget
from budget.errors import BudgetError, BudgetExhausted, DatabaseConflict, UpstreamError, UpstreamTimeout
from budget.ledger import Outcome
from budget.policy import Policy
from budget.retry import RETRY_HEADER, Backoff, Retries, TokenBucket, Try, incoming_attempt, is_transient
from budget.spend import spend
from tests.unit.budget.clocks import FakeClock

POLICY = Policy(dependency="pricing", method="GetPrice", limit=0.3, floor=0.05, attempts=3)


def unavailable(pushback: float | None = None, code: str = "UNAVAILABLE") -> UpstreamError:
    return UpstreamError(dependency="pricing", method="GetPrice", code=code, pushback=pushback)


@dataclass
class Scene:
    """A caller, a dependency that fails as told, and time that passes only in waits and tries."""

    errors: list[Exception] = field(default_factory=list)
    try_takes: float = 0.01
    total: float = 2.0
    bucket: TokenBucket = field(default_factory=TokenBucket)
    clock: FakeClock = field(default_factory=FakeClock)
    tries: list[Try] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.budget = Budget.root(incoming=self.total, default=None, cap=None, clock=self.clock)
        self.retries = Retries(bucket=self.bucket, random=Random(7), sleep=self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.clock.advance(seconds)

    async def call(self, one: Try) -> str:
        self.tries.append(one)
        async with spend(self.budget, POLICY, attempt=one.attempt):
            self.clock.advance(self.try_takes)
            if self.errors:
                raise self.errors.pop(0)
        return "priced"

    async def run(self, policy: Policy = POLICY, incoming: int = 0) -> str:
        return await self.retries.run(self.call, budget=self.budget, policy=policy, incoming_attempt=incoming)

    @property
    def endings(self) -> list[tuple[Outcome, int, str]]:
        return [(one.outcome, one.attempt, one.reason) for one in self.budget.ledger.spends]


async def test_a_transient_failure_is_tried_again_and_both_tries_are_seen() -> None:
    scene = Scene(errors=[unavailable()])
    assert await scene.run() == "priced"
    assert scene.endings == [(Outcome.ERROR, 1, "UNAVAILABLE"), (Outcome.OK, 2, "")]
    assert [one.metadata for one in scene.tries] == [(), ((RETRY_HEADER, "1"),)]


async def test_attempts_are_bounded_and_the_last_error_is_raised() -> None:
    last = unavailable()
    scene = Scene(errors=[unavailable(), unavailable(), last, unavailable()])
    with pytest.raises(UpstreamError) as caught:
        await scene.run()
    assert caught.value is last
    assert [one.attempt for one in scene.tries] == [1, 2, 3]


@pytest.mark.parametrize(
    "error",
    [
        unavailable(code="INVALID_ARGUMENT"),
        UpstreamTimeout(dependency="pricing", method="GetPrice"),
        BudgetExhausted(),
        KeyError(),
    ],
)
async def test_what_is_not_transient_is_not_tried_again(error: Exception) -> None:
    scene = Scene(errors=[error])
    with pytest.raises(type(error)):
        await scene.run()
    assert len(scene.tries) == 1
    assert Outcome.RETRY_SKIPPED not in {outcome for outcome, _, _ in scene.endings}


async def test_no_retry_that_could_not_finish() -> None:
    scene = Scene(errors=[unavailable()], total=0.2, try_takes=0.14)
    with pytest.raises(UpstreamError):
        await scene.run()
    assert scene.endings[-1] == (Outcome.RETRY_SKIPPED, 2, "BUDGET")


async def test_a_request_that_is_itself_a_retry_is_not_tried_again_and_says_so_further_down() -> None:
    scene = Scene(errors=[unavailable()])
    with pytest.raises(UpstreamError):
        await scene.run(incoming=1)
    assert scene.endings[-1] == (Outcome.RETRY_SKIPPED, 2, "IS_A_RETRY")
    assert [one.metadata for one in scene.tries] == [((RETRY_HEADER, "1"),)]


async def test_the_dependencys_pushback_is_the_wait() -> None:
    scene = Scene(errors=[unavailable(pushback=0.123)])
    await scene.run()
    assert scene.waits == [0.123]


@pytest.mark.parametrize(("pushback", "reason"), [(math.inf, "PUSHBACK"), (5.0, "BUDGET")])
async def test_a_pushback_may_forbid_a_retry_or_be_too_long_to_wait_out(pushback: float, reason: str) -> None:
    scene = Scene(errors=[unavailable(pushback=pushback)])
    with pytest.raises(UpstreamError):
        await scene.run()
    assert (scene.endings[-1], scene.waits) == ((Outcome.RETRY_SKIPPED, 2, reason), [])


async def test_an_empty_bucket_stops_retries_and_successes_fill_it_again() -> None:
    bucket = TokenBucket()
    for _ in range(10):
        assert await Scene(errors=[unavailable()], bucket=bucket, total=60.0).run() == "priced"
    assert bucket.tokens == pytest.approx(2.0), "ten retries taken, ten successes at 0.2"
    while bucket.take():
        pass
    scene = Scene(errors=[unavailable()], bucket=bucket)
    with pytest.raises(UpstreamError):
        await scene.run()
    assert scene.endings[-1] == (Outcome.RETRY_SKIPPED, 2, "NO_TOKEN")
    for _ in range(5):
        await Scene(bucket=bucket).run()
    assert bucket.take()


async def test_a_skipped_retry_costs_no_token() -> None:
    scene = Scene(errors=[unavailable()])
    with pytest.raises(UpstreamError):
        await scene.run(incoming=2)
    assert scene.bucket.tokens == 10.0


@pytest.mark.parametrize("moment", ["call", "wait"])
async def test_nothing_is_tried_after_a_cancel(moment: str) -> None:
    tries = 0

    async def for_ever(_: object) -> None:
        await asyncio.Event().wait()

    async def call(_: Try) -> None:
        nonlocal tries
        tries += 1
        if moment == "wait":
            raise unavailable()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise unavailable() from None  # what a careless library makes of a cancel

    budget = Budget.root(incoming=2.0, default=None, cap=None)
    retries = Retries(sleep=for_ever)
    task = asyncio.create_task(retries.run(call, budget=budget, policy=POLICY))
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert tries == 1


@given(
    errors=st.lists(st.sampled_from([None, 0.0, 0.2, 3.0, math.inf]), max_size=6),
    total=st.floats(0.05, 2.0),
    try_takes=st.floats(0.0, 0.3),
    attempts=st.integers(1, 5),
)
async def test_no_try_begins_without_the_time_it_needs(
    errors: list[float | None], total: float, try_takes: float, attempts: int
) -> None:
    scene = Scene(errors=[unavailable(one) for one in errors], total=total, try_takes=try_takes)
    begun: list[float] = []
    call = scene.call

    async def noting(one: Try) -> str:
        if one.attempt > 1:
            begun.append(scene.budget.spendable())
        return await call(one)

    scene.call = noting  # type: ignore[method-assign] # the scene's own call, watched
    with suppress(BudgetError):
        await scene.run(replace(POLICY, attempts=attempts))
    assert all(left >= POLICY.floor - 1e-9 for left in begun)
    assert len(scene.tries) <= attempts
    assert scene.bucket.tokens >= 10 - len(begun)


@given(st.integers(1, 10_000), st.integers())
def test_jitter_is_full_and_capped(attempt: int, seed: int) -> None:
    backoff = Backoff()
    wait = backoff.wait(attempt, Random(seed))
    assert 0 <= wait <= min(0.25, 0.025 * 2 ** min(attempt - 1, 20))


@pytest.mark.parametrize("value", [None, "", "0", "-1", "x", "9" * 50, "²"])
def test_the_header_is_read_with_suspicion(value: str | None) -> None:
    assert (incoming_attempt(value), incoming_attempt("2")) == (0, 2)


def test_a_lost_race_in_the_database_is_transient() -> None:
    assert is_transient(DatabaseConflict())
    assert is_transient(unavailable(pushback=1.0, code="RESOURCE_EXHAUSTED"))
    assert not is_transient(unavailable(code="RESOURCE_EXHAUSTED"))
