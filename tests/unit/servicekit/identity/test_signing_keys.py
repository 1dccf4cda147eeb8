"""Keys rotate without a restart, and an issuer that is away or hangs holds up nobody."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from budget.core import Budget
from budget.errors import BudgetTooLow
from servicekit.identity.errors import InvalidToken, SigningKeysUnavailable
from servicekit.identity.key_sources import KeysUnreadable
from servicekit.identity.signing_keys import KeyPace, SigningKeys
from tests.tokens import key_set
from tests.waiting import eventually

QUICK = KeyPace(refresh=60.0, pause=0.01)


class Issuer:
    """What an issuer answers, and how often it was asked."""

    def __init__(self, *keys: str) -> None:
        self.text = key_set(*keys)
        self.asked = 0
        self.away = False
        self.hangs = asyncio.Event()
        self.hangs.set()

    async def read(self, _budget: Budget) -> str:
        self.asked += 1
        await self.hangs.wait()
        if self.away:
            raise KeysUnreadable("the answer's status is 503")
        return self.text


@asynccontextmanager
async def following(issuer: Issuer, pace: KeyPace = QUICK) -> AsyncIterator[SigningKeys]:
    keys = SigningKeys(issuer.read, algorithms=["ES256"], pace=pace)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(keys.run(stop))
        yield keys
        stop.set()
        issuer.hangs.set()


def soon() -> Budget:
    return Budget.for_work(2.0)


async def test_the_first_requests_wait_for_the_first_keys() -> None:
    async with following(Issuer("one")) as keys:
        assert "one" == (await keys.key("one", soon())).key_id


async def test_a_key_that_was_added_is_found_at_once() -> None:
    issuer = Issuer("one")
    async with following(issuer) as keys:
        await keys.key("one", soon())
        issuer.text = key_set("one", "two")
        await asyncio.sleep(QUICK.pause)
        assert "two" == (await keys.key("two", soon())).key_id
        assert 2 == issuer.asked


async def test_a_key_that_was_dropped_goes_with_the_next_reading() -> None:
    issuer = Issuer("one", "two")
    async with following(issuer, KeyPace(refresh=0.01, pause=0.01)) as keys:
        await keys.key("one", soon())
        issuer.text = key_set("two")
        await eventually(lambda: keys.current.get("one") is None, within=2.0)
        assert keys.current.get("two")


async def test_a_storm_of_unknown_keys_asks_the_issuer_once() -> None:
    issuer = Issuer("one")
    async with following(issuer, KeyPace(refresh=60.0, pause=0.4)) as keys:
        await keys.key("one", soon())
        await asyncio.sleep(0.4)
        asked = [keys.key(f"unknown-{number}", soon()) for number in range(200)]
        refusals = await asyncio.gather(*asked, return_exceptions=True)
        assert {InvalidToken} == set(map(type, refusals))
        assert 2 == issuer.asked
        with pytest.raises(InvalidToken):
            await keys.key("another", soon())
        assert 2 == issuer.asked, "nobody is asked again so soon"


async def test_an_issuer_that_hangs_holds_nobody_with_a_known_key_and_no_other_beyond_its_time() -> None:
    issuer = Issuer("one")
    async with following(issuer) as keys:
        await keys.key("one", soon())
        await asyncio.sleep(QUICK.pause)
        issuer.hangs.clear()
        began = asyncio.get_running_loop().time()
        with pytest.raises(SigningKeysUnavailable):
            await keys.key("two", Budget.root(incoming=30.0, default=None, cap=None))
        assert 0.9 < asyncio.get_running_loop().time() - began < 2.0, "the limit of the wait"
        with pytest.raises(BudgetTooLow):
            await keys.key("two", Budget.root(incoming=0.0, default=None, cap=None))
        assert "one" == (await keys.key("one", Budget.for_work(0.001))).key_id


async def test_an_issuer_that_is_away_leaves_the_known_keys_and_says_that_it_may_be_tried_again() -> None:
    issuer = Issuer("one")
    async with following(issuer) as keys:
        await keys.key("one", soon())
        issuer.away = True
        await asyncio.sleep(QUICK.pause)
        with pytest.raises(SigningKeysUnavailable):
            await keys.key("two", soon())
        assert "one" == (await keys.key("one", soon())).key_id
        issuer.away, issuer.text = False, key_set("two")
        await asyncio.sleep(QUICK.pause)
        assert "two" == (await keys.key("two", soon())).key_id


async def test_what_is_no_key_set_changes_nothing() -> None:
    issuer = Issuer("one")
    async with following(issuer, KeyPace(refresh=0.01, pause=0.01)) as keys:
        await keys.key("one", soon())
        issuer.text = "<html>maintenance</html>"
        before = issuer.asked
        await eventually(lambda: issuer.asked > before + 1, within=2.0)
        assert "one" == (await keys.key("one", soon())).key_id


async def test_a_caller_who_leaves_stops_no_reading() -> None:
    issuer = Issuer("one")
    async with following(issuer) as keys:
        await keys.key("one", soon())
        await asyncio.sleep(QUICK.pause)
        issuer.hangs.clear()
        issuer.text = key_set("two")
        leaving = asyncio.create_task(keys.key("two", soon()))
        await eventually(lambda: issuer.asked == 2, within=2.0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        issuer.hangs.set()
        await eventually(lambda: keys.current.get("two") is not None, within=2.0)
