"""Asks providers what became of calls whose outcome nobody knows: no answer that is there is bought twice.

Only a whole answer decides. A provider that knows none has proven nothing about what ran and what it bills,
so then, as while it still works on one, the job's policy holds.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from budget.core import Budget
from jobs_store.endings import Finish, Verdict
from jobs_store.events import EventKind, NewEvent
from jobs_store.pacing import pause, within
from jobs_store.signals import job_changed
from jobs_store.states import ErrorClass
from worker.ending import EndedRun, Tail, ending_of
from worker.interrupt import Interrupted
from worker.outcome import Answered, Delivered, Failed, finish_reason_of
from worker.providers.errors import Cause, ProviderError
from worker.providers.protocol import FoundAnswer, NoAnswer, StillRunning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobs_store.decisions import Jitter, RetryTiming
    from jobs_store.endings import Ended
    from jobs_store.look_ups import HeldRun, LookUpStore
    from jobs_store.signals import Notify
    from worker.active import Run
    from worker.group_commit import GroupCommit
    from worker.metrics import RunMetrics
    from worker.outcome import CallEnd
    from worker.providers.protocol import LookUp, Provider

_FILTERED: Final = "content_filter"
_BYTES_A_TOKEN: Final = 4
"""About; for answers that nobody has counted."""
_log = structlog.stdlib.get_logger("hourglass.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class LookUpPace:
    """Durations in seconds.

    ask: one question. patience: how long a run asks again while its provider still works on the answer, every
    `again` seconds. interval: between two questions about a held job, whoever asks. most: held jobs at once.
    """

    ask: float = 5.0
    patience: float = 10.0
    again: float = 0.5
    interval: float = 10.0
    most: int = 20


class RunLookUp:
    """What a run does before it says that it does not know."""

    def __init__(self, pace: LookUpPace) -> None:
        self._pace = pace

    async def after(self, run: Run, provider: Provider, end: CallEnd) -> CallEnd:
        """The call's end as the provider knows it; the same end when that is no help.

        What of the answer had not arrived goes into the run's log, like any text of it.
        """
        if not (_is_unknown(end) and provider.capabilities.look_up):
            return end
        try:
            async with run.interrupt.guard():
                found = await self._until_known(str(run.claimed.token), provider)
        except (Interrupted, ProviderError) as error:
            _log.info("a look-up was no help", job=str(run.claimed.job_id), error=str(error))
            return end
        run.progress.write_out()
        delivered = run.progress.delivered.text
        if not isinstance(found, FoundAnswer) or not found.text.startswith(delivered):
            return end
        if rest := found.text[len(delivered) :]:
            run.progress.chunk(rest)
        return _end_of(found)

    async def _until_known(self, key: str, provider: Provider) -> LookUp:
        budget = Budget.for_work(self._pace.patience)
        while True:
            found = await provider.look_up(key, budget=budget.child(self._pace.ask))
            if not isinstance(found, StillRunning) or budget.spendable() <= self._pace.again:
                return found
            await asyncio.sleep(self._pace.again)


class HeldLookUps:
    """The loop that asks about held jobs. All workers share their turns."""

    def __init__(
        self,
        store: LookUpStore,
        providers: Sequence[Provider],
        finishes: GroupCommit[Finish, Ended],
        *,
        notify: Notify,
        metrics: RunMetrics,
        timing: RetryTiming,
        jitter: Jitter,
        pace: LookUpPace,
    ) -> None:
        self._store = store
        self._providers = {each.name: each for each in providers if each.capabilities.look_up}
        self._finishes = finishes
        self._notify = notify
        self._metrics = metrics
        self._timing = timing
        self._jitter = jitter
        self._pace = pace

    async def run(self, stop: asyncio.Event) -> None:
        """Asks until `stop` is set; without a provider that can be asked, waits for that."""
        if not self._providers:
            await stop.wait()
        while not stop.is_set():
            await self._round()
            await pause(within(self._pace.interval, self._jitter), stop)

    async def _round(self) -> None:
        try:
            held = await self._store.take(
                tuple(self._providers),
                interval=self._pace.interval,
                most=self._pace.most,
                budget=Budget.for_work(self._pace.ask),
            )
        except Exception as error:  # noqa: BLE001 - the next round asks again
            _log.warning("held jobs were not looked up", reason=getattr(error, "reason", "INTERNAL"))
            return
        await asyncio.gather(*map(self._look_up, held))

    async def _look_up(self, held: HeldRun) -> None:
        """One held job; whatever fails, its next turn comes."""
        run = held.run
        try:
            provider = self._providers[run.lane.partition("/")[0]]
            found = await provider.look_up(str(run.token), budget=Budget.for_work(self._pace.ask))
            match found:
                case FoundAnswer():
                    await self._end(held, found)
                case StillRunning() | NoAnswer():
                    _log.info("still on hold", job=str(run.job_id), provider=type(found).__name__)
        except Exception as error:  # noqa: BLE001 - see above
            _log.warning("a look-up failed", job=str(run.job_id), reason=getattr(error, "reason", "INTERNAL"))

    async def _end(self, held: HeldRun, found: FoundAnswer) -> None:
        """As the attempt's own late answer: fenced by its token, refused once somebody else has decided."""
        ended = _ended(held, found)
        write = ending_of(ended, timing=self._timing, jitter=self._jitter).write
        assert isinstance(write, Finish), "an answer, or a refusal, ends the job"
        result = await self._finishes.submit(write)
        if result.verdict is Verdict.OK:
            self._notify(job_changed(held.run.tenant, held.run.job_id))
            self._metrics.ended(held.run, write, result)


def _is_unknown(end: CallEnd) -> bool:
    return isinstance(end, Failed) and end.sent and end.error_class is ErrorClass.UNKNOWN


def _end_of(found: FoundAnswer) -> Answered | Failed:
    if found.finish_reason == _FILTERED:
        return Failed(
            cause=Cause.CONTENT_FILTERED,
            error_class=ErrorClass.PERMANENT,
            provider_request_id=found.provider_request_id,
            usage=found.usage,
        )
    return Answered(
        finish_reason=finish_reason_of(found.finish_reason),
        provider_request_id=found.provider_request_id,
        usage=found.usage,
    )


def _ended(held: HeldRun, found: FoundAnswer) -> EndedRun:
    rest = found.text[held.delivered_length :]
    tokens = _tokens_of(rest, held, found)
    delta = NewEvent(
        kind=EventKind.TOKEN_DELTA,
        text=rest,
        attributes={"offset": held.delivered_length, "token_count": tokens},
    )
    return EndedRun(
        run=held.run,
        end=_end_of(found),
        delivered=Delivered(text=found.text, tokens=held.delivered_tokens + tokens),
        tail=Tail(first_event=1, events=(delta,) if rest else ()),
    )


def _tokens_of(rest: str, held: HeldRun, found: FoundAnswer) -> int:
    """Tokens of what had not arrived: the provider's count less what had, else an estimate."""
    if found.usage is None:
        return -(-len(rest.encode()) // _BYTES_A_TOKEN)
    return max(0, found.usage.output_tokens - held.delivered_tokens)
