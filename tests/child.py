"""A child process for tests of the launcher: `python -m tests.child MODE`."""

import json
import signal
import sys
import time

FOREVER = 60.0


def main(mode: str) -> None:
    """Serve nothing; behave as `mode` says."""
    if mode == "dies":
        for number in range(100):
            say(f"line {number}")
        say(
            json.dumps(
                {"level": "critical", "event": "no luck", "error": "Bad", "exception": "a\nb\nBad: why"}
            )
        )
        sys.exit(3)
    if mode == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode == "wordy":
        say("x" * 3_000_000)
    if mode != "mute":
        say(json.dumps({"event": "serving", "address": "nowhere:1"}))
    time.sleep(FOREVER)


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
