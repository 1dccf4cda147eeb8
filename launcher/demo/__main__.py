"""`python -m launcher.demo` (`make demo`)."""

import asyncio
import signal
import sys
from typing import Final

from launcher.demo.errors import DemoFailed
from launcher.demo.run import run
from launcher.demo.terminal import Terminal
from launcher.failures import EXPECTED, told
from launcher.settings import DemoSettings

INTERRUPTED: Final = 130


def main() -> int:
    """Run the demo; 0 when everything kept its promise, 1 when not, 130 when it was interrupted."""
    terminal = Terminal()
    try:
        asyncio.run(_until_stopped(terminal))
    except (*EXPECTED, DemoFailed) as error:
        terminal.failure(f"the demo failed: {told(error)}")
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        terminal.failure("interrupted; everything that was started has ended")
        return INTERRUPTED
    return 0


async def _until_stopped(terminal: Terminal) -> None:
    """SIGTERM ends the demo as Ctrl-C does: in good order."""
    task = asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await run(DemoSettings.load(), terminal)


if __name__ == "__main__":
    sys.exit(main())
