"""Why a demo ends before its end."""


class DemoFailed(Exception):
    """A step did not do what it promises."""

    reason = "DEMO_FAILED"

    def __init__(self, step: str, why: str) -> None:
        self.step = step
        super().__init__(f"{step}: {why}")
