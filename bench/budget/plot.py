"""Lines in an SVG, by a few lines of code."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

WIDTH: Final = 720
HEIGHT: Final = 400
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 45, 55
COLOURS: Final = ("#0b6e4f", "#c1440e", "#1d4e89", "#7a5195", "#8a8a8a", "#b8860b")
TICKS: Final = 5

_OPENING: Final = (
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
    'font-family="sans-serif" font-size="12">'
)

Points = Sequence[tuple[float, float]]


def svg(title: str, x_name: str, y_name: str, lines: Mapping[str, Points]) -> str:
    """A picture of named lines; both axes begin at 0."""
    right = max((x for points in lines.values() for x, _ in points), default=1.0) or 1.0
    top = 1.1 * max((y for points in lines.values() for _, y in points), default=1.0) or 1.0
    scale = _Scale(right, top)
    parts = [
        _OPENING,
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 24, title, size=15),
        *_axes(scale, right, top, x_name, y_name),
    ]
    for number, (name, points) in enumerate(lines.items()):
        parts += _line(scale, name, points, COLOURS[number % len(COLOURS)], number)
    return "\n".join([*parts, "</svg>", ""])


class _Scale:
    def __init__(self, right: float, top: float) -> None:
        self._right = right
        self._top = top

    def x(self, value: float) -> float:
        return round(LEFT + value / self._right * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        return round(HEIGHT - BOTTOM - value / self._top * (HEIGHT - TOP - BOTTOM), 1)


def _axes(scale: _Scale, right: float, top: float, x_name: str, y_name: str) -> list[str]:
    parts = []
    for tick in range(TICKS + 1):
        x, y = right * tick / TICKS, top * tick / TICKS
        parts += [
            f'<line x1="{LEFT}" y1="{scale.y(y)}" x2="{WIDTH - RIGHT}" y2="{scale.y(y)}" stroke="#ddd"/>',
            _text(LEFT - 8, scale.y(y) + 4, f"{y:.4g}", anchor="end"),
            _text(scale.x(x), HEIGHT - BOTTOM + 18, f"{x:.4g}", anchor="middle"),
        ]
    middle = (LEFT + WIDTH - RIGHT) / 2
    return [*parts, _text(middle, HEIGHT - 14, x_name, anchor="middle"), _text(8, TOP - 8, y_name)]


def _line(scale: _Scale, name: str, points: Points, colour: str, number: int) -> list[str]:
    path = " ".join(f"{scale.x(x)},{scale.y(y)}" for x, y in points)
    y = TOP + 10 + 20 * number
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
        f'<rect x="{WIDTH - RIGHT + 14}" y="{y - 9}" width="12" height="10" fill="{colour}"/>',
        _text(WIDTH - RIGHT + 32, y, name),
    ]


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
