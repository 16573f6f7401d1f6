"""Steps per second against workers, one curve per number of ps: an SVG, written by hand."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence

from millrace.observe.planner.simulation import Outcome

_WIDTH, _HEIGHT = 720, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 110, 34, 44
_INK, _FAINT = "#24364f", "#d5dde8"
_COLOURS = ("#0b7285", "#d29a2e", "#4d9a6a", "#a85a8f", "#7a7a7a", "#3b6fb6")


def draw(outcomes: Sequence[Outcome], title: str) -> str:
    """The picture; both axes are logarithmic, so that linear growth is a straight line."""
    workers = sorted({each.setting.workers for each in outcomes})
    rates = [each.steps_per_second for each in outcomes]
    x = _scale(workers[0], workers[-1], _LEFT, _WIDTH - _RIGHT)
    y = _scale(min(rates), max(rates), _HEIGHT - _BOTTOM, _TOP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f"<title>{html.escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        _text(_LEFT, 20, title, anchor="start", size=13),
        _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, "workers"),
    ]
    for count in workers:
        lines.append(_line([(x(count), _TOP), (x(count), _HEIGHT - _BOTTOM)], _FAINT))
        lines.append(_text(x(count), _HEIGHT - _BOTTOM + 16, str(count)))
    for mark in _marks(min(rates), max(rates)):
        lines.append(_line([(_LEFT, y(mark)), (_WIDTH - _RIGHT, y(mark))], _FAINT))
        lines.append(_text(_LEFT - 6, y(mark) + 4, f"{mark:g}/s", anchor="end"))
    for number, ps in enumerate(sorted({each.setting.ps for each in outcomes})):
        colour = _COLOURS[number % len(_COLOURS)]
        curve = sorted(
            (each for each in outcomes if each.setting.ps == ps), key=lambda e: e.setting.workers
        )
        points = [(x(each.setting.workers), y(each.steps_per_second)) for each in curve]
        lines.append(_line(points, colour, 2))
        for (at, high), each in zip(points, curve, strict=True):
            told = html.escape(f"{each.steps_per_second:.1f} steps/s; limit: {each.limit}")
            dot = f'<circle cx="{at:.1f}" cy="{high:.1f}" r="4" fill="{colour}">'
            lines.append(f"{dot}<title>{told}</title></circle>")
        last = points[-1]
        lines.append(_text(last[0] + 10, last[1] + 4, f"{ps} ps", anchor="start", colour=colour))
    return "\n".join([*lines, "</svg>", ""])


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    span = math.log(high / low) if high > low else 1.0

    def place(value: float) -> float:
        return start + (end - start) * (math.log(value / low) / span if high > low else 0.5)

    return place


def _marks(low: float, high: float) -> list[float]:
    found = [
        digit * 10.0**power
        for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for digit in (1, 2, 5)
        if low <= digit * 10.0**power <= high
    ]
    return found or [low]


def _line(points: Sequence[tuple[float, float]], colour: str, width: float = 1) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _text(
    x: float, y: float, text: str, anchor: str = "middle", size: int = 12, colour: str = _INK
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}" '
        f'text-anchor="{anchor}">{html.escape(text)}</text>'
    )
