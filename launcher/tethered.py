"""`python -m launcher.tethered PARENT MODULE [ARGUMENTS]`: a module in a process that ends with its launcher.

The kernel sends SIGTERM when the launcher is gone, however it went (prctl(2), PR_SET_PDEATHSIG). It is asked
for here and not between fork and exec, where a launcher with threads must not run Python.
"""

import ctypes
import os
import runpy
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def tether(parent: int) -> None:
    """Tie this process to its parent; leave at once when that has ended already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the launcher has ended")


def main() -> None:
    """Become the module, with its arguments."""
    parent, module, *arguments = sys.argv[1:]
    tether(int(parent))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
