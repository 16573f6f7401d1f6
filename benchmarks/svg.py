"""Pictures for the documentation, written as SVG: shapes in, a file out; no library needed."""

from __future__ import annotations

import html
import pathlib
from collections.abc import Sequence

INK = "#24364f"
FAINT = "#d5dde8"
#: Colours that can be told apart, also by those who see no red or green.
COLORS = ("#3b6fb6", "#d29a2e", "#4d9a6a", "#a85a8f", "#7a7a7a")


class Drawing:
    """A white sheet with shapes, in the order in which they are drawn."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            'font-family="Helvetica, Arial, sans-serif" font-size="13">',
            f"  <title>{html.escape(title)}</title>",
            f'  <rect width="{width}" height="{height}" fill="#ffffff"/>',
        ]

    def text(
        self, x: float, y: float, text: str, *,
        anchor: str = "start", size: int = 13, color: str = INK, bold: bool = False,
    ) -> None:  # fmt: skip
        """A line of text that begins, is centred or ends at a point."""
        weight = ' font-weight="bold"' if bold else ""
        self._lines.append(
            f'  <text x="{x:.1f}" y="{y:.1f}" fill="{color}" font-size="{size}" '
            f'text-anchor="{anchor}"{weight}>{html.escape(text)}</text>'
        )

    def box(
        self, x: float, y: float, width: float, height: float, color: str, about: str = ""
    ) -> None:
        """A filled rectangle; what it is about is shown when the mouse is over it."""
        title = f"<title>{html.escape(about)}</title>" if about else ""
        self._lines.append(
            f'  <rect x="{x:.1f}" y="{y:.1f}" width="{width:.2f}" height="{height:.1f}" '
            f'fill="{color}">{title}</rect>'
        )

    def line(
        self, points: Sequence[tuple[float, float]], color: str = INK, width: float = 1.0
    ) -> None:
        """A line through points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._lines.append(
            f'  <polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}"/>'
        )

    def dot(self, x: float, y: float, color: str, about: str = "") -> None:
        """A mark at a point."""
        self._lines.append(
            f'  <circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}">'
            f"<title>{html.escape(about)}</title></circle>"
        )

    def save(self, path: pathlib.Path) -> None:
        """Writes the file."""
        path.write_text("\n".join([*self._lines, "</svg>"]) + "\n")


def nice_steps(limit: float, count: int = 5) -> list[float]:
    """Round numbers from 0 to a little above a limit, for an axis."""
    unit = 10.0 ** len(str(int(limit / count))) / 10 if limit >= count else 0.1
    while unit * count < limit:
        for factor in (2.0, 2.5, 2.0):
            unit *= factor
            if unit * count >= limit:
                break
    number = int(-(-limit // unit))
    return [unit * i for i in range(number + 1)]
