"""A measured figure, its target and its verdict; a table of them, and their JSON."""

import json
import math
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

FRESH: Final = Path(".hourglass/bench")
"""Where fresh figures go; git ignores it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number. `ours` is compared with `target`, or `ours / other` when the target is a ratio.

    target: None for a figure that is only reported.
    at_least: the target is a lower bound; else it is an upper one.
    other: what `ours` is set beside, in the same run.
    samples: the rounds that `ours` is the median of.
    ratios: ours by the other side in each round, where both ran within seconds; `ratio` is their median.
    """

    name: str
    unit: str
    ours: float
    target: float | None = None
    at_least: bool = True
    of_ratio: bool = False
    other: float | None = None
    other_name: str = "by hand"
    samples: Sequence[float] = ()
    ratios: Sequence[float] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Ours divided by the other side, round by round where that is known."""
        if self.ratios:
            return middle(self.ratios)
        return self.ours / self.other if self.other else None

    @property
    def verdict(self) -> str:
        """`met`, `missed`, or `reported` without a target."""
        if self.target is None:
            return "reported"
        value = (self.ratio or 0.0) if self.of_ratio else self.ours
        met = value >= self.target if self.at_least else value <= self.target
        return "met" if met else "missed"

    def as_json(self) -> dict[str, Any]:
        """Everything, rounded for readers."""
        rounded: dict[str, Any] = _rounded({**asdict(self), "ratio": self.ratio, "verdict": self.verdict})
        return rounded


def percentile(values: Iterable[float], share: float) -> float:
    """By nearest rank; not a number when there are no values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


def middle(values: Sequence[float]) -> float:
    """The median."""
    return median(values)


def table(figures: Sequence[Figure]) -> str:
    """One line a figure."""
    header = ("figure", "ours", "other side", "ratio", "target", "verdict")
    rows = [header, *map(_row, figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
    )


def write(figures: Sequence[Figure], path: Path, **more: Any) -> None:
    """All figures as JSON, with the machine that they are from."""
    runs_on = {"python": platform.python_version(), "processors": os.cpu_count()}
    document = {"runs_on": runs_on, "figures": [figure.as_json() for figure in figures], **more}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n")


def missed(figures: Iterable[Figure]) -> list[Figure]:
    """Those whose target was not met."""
    return [figure for figure in figures if figure.verdict == "missed"]


def _row(figure: Figure) -> tuple[str, ...]:
    other = f"{_short(figure.other)} {figure.other_name}" if figure.other is not None else ""
    ratio = f"{figure.ratio:.2f}" if figure.ratio is not None else ""
    bound = ">=" if figure.at_least else "<="
    target = (
        f"{bound} {_short(figure.target)}{'x' if figure.of_ratio else ''}"
        if figure.target is not None
        else ""
    )
    return (figure.name, f"{_short(figure.ours)} {figure.unit}", other, ratio, target, figure.verdict)


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return value
