"""A key works while it is good, stops soon after it was revoked, and goes on while nobody can be asked."""

import asyncio
from dataclasses import replace

import pytest

from budget.core import Budget
from budget.errors import BudgetTooLow, DatabaseUnavailable
from servicekit.identity.api_key_text import ApiKeyText, new_api_key, parsed_api_key
from servicekit.identity.api_keys import KEPT_REFUSALS, ApiKeys, KeyAges, StoredKey
from servicekit.identity.errors import ApiKeyExpired, ApiKeyRevoked, UnknownApiKey
from servicekit.identity.scopes import Scope
from tests.waiting import eventually

KEY = new_api_key("acme")
STORED = StoredKey(
    digest=KEY.digest, user="batch", scopes=frozenset({Scope.READ}), expires=None, revoked=False
)
AGES = KeyAges(age=10.0, outage=60.0)


class Clock:
    """Stands still until it is told to step."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def step(self, seconds: float) -> None:
        self.now += seconds


class Shelf:
    """Where keys are stored."""

    def __init__(self, clock: Clock) -> None:
        self.stored: StoredKey | None = STORED
        self.asked: list[tuple[str, str]] = []
        self.error: Exception | None = None
        self.slow = asyncio.Event()
        self.slow.set()
        self.keys = ApiKeys(self.find, AGES, clock=clock, wall=clock)

    async def find(self, tenant: str, key_id: str, _budget: Budget) -> StoredKey | None:
        self.asked.append((tenant, key_id))
        await self.slow.wait()
        if self.error is not None:
            raise self.error
        return self.stored if key_id == KEY.key_id else None

    async def ask(self, text: str = KEY.text) -> str:
        return (await self.keys.principal(text, Budget.for_work(1.0))).authenticated_by


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def shelf(clock: Clock) -> Shelf:
    return Shelf(clock)


def test_a_key_says_whose_it_is_and_shows_its_secret_to_nobody_by_accident() -> None:
    assert KEY == parsed_api_key(KEY.text)
    assert KEY.text not in repr(KEY)
    assert 32 == len(KEY.digest)
    assert 200 == len({new_api_key("acme").text for _ in range(200)})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hgk_",
        KEY.text[:-1],
        KEY.text + "0",
        KEY.text.upper(),
        KEY.text.replace("acme", "zeta"),
        f"{KEY.text}\n",
        "hgk_" + "a" * 64 + KEY.text[8:],
    ],
)
async def test_what_never_was_a_key_is_refused_without_a_look_up(shelf: Shelf, text: str) -> None:
    assert parsed_api_key(text) is None
    with pytest.raises(UnknownApiKey):
        await shelf.ask(text)
    assert [] == shelf.asked


async def test_a_good_key_is_looked_up_once_as_its_own_tenant(shelf: Shelf) -> None:
    found = await shelf.keys.principal(KEY.text, Budget.for_work(1.0))
    assert ("acme", "batch", frozenset({Scope.READ})) == (found.tenant, found.user, found.scopes)
    assert f"api_key:{KEY.key_id}" == await shelf.ask()
    assert [("acme", KEY.key_id)] == shelf.asked


async def test_a_wrong_secret_and_an_unknown_id_are_told_alike_and_remembered(shelf: Shelf) -> None:
    assert shelf.stored is not None
    shelf.stored = replace(shelf.stored, digest=b"x" * 32)
    told = []
    for text in (KEY.text, new_api_key("acme").text):
        for _ in range(5):
            with pytest.raises(UnknownApiKey) as refused:
                await shelf.ask(text)
            told.append((refused.value.reason, str(refused.value)))
    assert 1 == len(set(told))
    assert 2 == len(shelf.asked)


async def test_a_revoked_key_stops_when_its_age_is_over(shelf: Shelf, clock: Clock) -> None:
    await shelf.ask()
    shelf.stored = replace(STORED, revoked=True)
    clock.step(9.9)
    await shelf.ask()
    clock.step(0.1)
    with pytest.raises(ApiKeyRevoked):
        await shelf.ask()
    with pytest.raises(ApiKeyRevoked):
        await shelf.ask()
    assert 2 == len(shelf.asked)


async def test_who_has_not_the_secret_does_not_learn_that_a_key_was_revoked(shelf: Shelf) -> None:
    shelf.stored = replace(STORED, revoked=True, digest=b"x" * 32)
    with pytest.raises(UnknownApiKey):
        await shelf.ask()


async def test_a_key_ends_at_its_time_also_while_it_is_remembered(shelf: Shelf, clock: Clock) -> None:
    shelf.stored = replace(STORED, expires=clock() + 5.0)
    await shelf.ask()
    clock.step(5.0)
    with pytest.raises(ApiKeyExpired):
        await shelf.ask()


async def test_a_known_key_goes_on_while_the_database_is_away_and_not_for_ever(
    shelf: Shelf, clock: Clock
) -> None:
    await shelf.ask()
    shelf.error = DatabaseUnavailable()
    clock.step(10.0)
    await shelf.ask()
    await shelf.ask()
    assert 2 == len(shelf.asked), "it is asked for once a second"
    clock.step(1.0)
    await shelf.ask()
    assert 3 == len(shelf.asked)
    clock.step(50.0)
    for _ in range(2):
        with pytest.raises(DatabaseUnavailable):
            await shelf.ask()


async def test_an_unknown_key_is_no_good_while_the_database_is_away(shelf: Shelf) -> None:
    shelf.error = DatabaseUnavailable()
    with pytest.raises(DatabaseUnavailable):
        await shelf.ask()


async def test_a_short_budget_keeps_no_revoked_key_alive(shelf: Shelf, clock: Clock) -> None:
    await shelf.ask()
    clock.step(10.0)
    shelf.error = BudgetTooLow(remaining=0.0, floor=0.005, dependency="postgres", method="find_api_key")
    with pytest.raises(BudgetTooLow):
        await shelf.ask()


async def test_of_a_known_key_one_look_up_at_a_time_is_on_its_way(shelf: Shelf, clock: Clock) -> None:
    await shelf.ask()
    clock.step(10.0)
    shelf.slow.clear()
    first = asyncio.create_task(shelf.ask())
    await eventually(lambda: len(shelf.asked) == 2, within=1.0)
    await asyncio.gather(*(shelf.ask() for _ in range(50)))
    assert 2 == len(shelf.asked)
    shelf.slow.set()
    await first


async def test_a_cancelled_look_up_lets_the_next_one_ask(shelf: Shelf, clock: Clock) -> None:
    await shelf.ask()
    clock.step(10.0)
    shelf.slow.clear()
    first = asyncio.create_task(shelf.ask())
    await eventually(lambda: len(shelf.asked) == 2, within=1.0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    shelf.slow.set()
    await shelf.ask()
    assert 3 == len(shelf.asked)


async def test_strangers_who_try_keys_fill_no_memory(shelf: Shelf) -> None:
    await shelf.ask()
    for _ in range(KEPT_REFUSALS + 10):
        with pytest.raises(UnknownApiKey):
            await shelf.ask(new_api_key("acme").text)
    assert KEPT_REFUSALS == len(shelf.keys._refused)
    asked = len(shelf.asked)
    await shelf.ask()
    assert asked == len(shelf.asked), "the good key is still remembered"


def test_the_text_is_found_by_scanners_of_lost_secrets() -> None:
    assert isinstance(parsed_api_key(KEY.text), ApiKeyText)
    assert KEY.text.startswith(f"hgk_acme_{KEY.key_id}_")
