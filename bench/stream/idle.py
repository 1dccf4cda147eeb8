"""What a watch costs while nothing happens."""

import asyncio
from typing import Final

from bench.budget.figures import Figure
from bench.stream.stage import Stage

WATCHES: Final = 5_000
WARM_UP: Final = 100
SECONDS: Final = 10.0
SETTLE: Final = 4.0


async def measure(stage: Stage) -> list[Figure]:
    """Memory of the server a watch, and its statements a second once they are all open."""
    jobs = await stage.idle_jobs(WATCHES)
    await stage.attach_idle(jobs[:WARM_UP])
    await stage.watchers.ask("leave")
    before = await stage.service.ask("usage")
    attached = await stage.attach_idle(jobs)
    await asyncio.sleep(SETTLE)
    settled = await stage.service.ask("usage")
    await asyncio.sleep(SECONDS)
    after = await stage.service.ask("usage")
    await stage.watchers.ask("leave", within=60.0)
    ticks, own = after["ticks"] - settled["ticks"], after["own"] - settled["own"]
    return [
        Figure(
            name=f"memory of an idle watch, {attached:,} of {WATCHES:,} open",
            unit="kB",
            ours=(settled["memory"] - before["memory"]) / attached / 1000,
            target=60.0,
            at_least=False,
            notes={"processor_share": (after["cpu"] - settled["cpu"]) / SECONDS},
        ),
        Figure(
            name="reads of where jobs stand by the watches themselves, beside those of the timer",
            unit="statements",
            ours=own,
            target=0,
            at_least=False,
            notes={"ticks": ticks, "seconds": SECONDS},
        ),
    ]
