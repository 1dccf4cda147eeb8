"""Processes whose wall clock steps when a test says so, while their monotonic clock goes on.

`libfaketime` steps every clock call of the process, C-core's too; it is Debian's package `faketime`.
`time.time` steps what Python code reads, and needs nothing.
"""

from collections.abc import Mapping
from pathlib import Path

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
HOW_TO_INSTALL = "apt-get install faketime"

_STEPPED_TIME = """
import os, pathlib, time
_step, _real = pathlib.Path(os.environ["HOURGLASS_TEST_STEP"]), time.time
time.time = lambda: _real() + float(_step.read_text())
"""


def describe() -> str:
    """For the header of a test run."""
    if LIBRARY is None:
        return f"wall clock: stepped in Python only; for C-core too: {HOW_TO_INSTALL}"
    return f"wall clock: stepped by {LIBRARY}"


def off_by(seconds: int) -> Mapping[str, str]:
    """The environment of a process whose wall clock is off by so many seconds, all the time."""
    assert LIBRARY is not None, HOW_TO_INSTALL
    return {
        "LD_PRELOAD": str(LIBRARY),
        "FAKETIME": f"{seconds:+d}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


class SteppedClock:
    """The environment of such a process, and the handle of its clock.

    everywhere: all code of the process sees the steps. If not, a clock that stays off is off against that of
    C-core, as no real clock is: it may step during a call only.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str], *, everywhere: bool) -> None:
        self._file = folder / "step"
        self.environment = environment
        self.everywhere = everywhere
        self.step(0)

    @classmethod
    def of_libfaketime(cls, folder: Path) -> "SteppedClock":
        """Steps every clock but the monotonic one."""
        assert LIBRARY is not None, HOW_TO_INSTALL
        return cls(
            folder,
            {
                "LD_PRELOAD": str(LIBRARY),
                "FAKETIME_TIMESTAMP_FILE": str(folder / "step"),
                "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            },
            everywhere=True,
        )

    @classmethod
    def of_python(cls, folder: Path) -> "SteppedClock":
        """Steps `time.time`."""
        (folder / "sitecustomize.py").write_text(_STEPPED_TIME)
        environment = {"PYTHONPATH": str(folder), "HOURGLASS_TEST_STEP": str(folder / "step")}
        return cls(folder, environment, everywhere=False)

    def step(self, seconds: int) -> None:
        """From now on the wall clock is so far off."""
        late = self._file.with_suffix(".new")
        late.write_text(f"{seconds:+d}")
        late.replace(self._file)  # at once: it is read all the time
