"""Where a child's processor time goes, for when a figure misses its target."""

import cProfile
import io
import pstats
import time
from collections.abc import Mapping
from typing import Any, Final

_LINES: Final = 45


class Profiling:
    """A child's answer to `profile`."""

    def __init__(self) -> None:
        self._profile: cProfile.Profile | None = None

    async def profile(self, asked: Mapping[str, Any]) -> dict[str, str]:
        """Begins a profile (`on`), or ends it and answers with its most expensive lines."""
        if asked["on"]:
            self._profile = cProfile.Profile(time.thread_time)
            self._profile.enable()
            return {}
        assert self._profile is not None
        self._profile.disable()
        text = io.StringIO()
        pstats.Stats(self._profile, stream=text).sort_stats("tottime").print_stats(_LINES)
        return {"lines": text.getvalue()}
