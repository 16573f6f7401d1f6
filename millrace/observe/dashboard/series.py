"""Numbers over time that never take more than a fixed room: old ones become coarser."""

from __future__ import annotations


class Series:
    """Points (x, y) in the order of x.

    When there are more than `limit`, every other one of the older three quarters goes: the shape
    of the whole stays, and the end keeps all its points.
    """

    def __init__(self, limit: int = 400) -> None:
        self._limit = limit
        self._points: list[tuple[float, float]] = []

    def add(self, x: float, y: float) -> None:
        """One more; points that it is not after are taken back (a step that is repeated)."""
        points = self._points
        while points and points[-1][0] >= x:
            points.pop()
        points.append((x, y))
        if len(points) > self._limit:
            recent = len(points) * 3 // 4
            self._points = points[:recent:2] + points[recent:]

    def points(self) -> list[tuple[float, float]]:
        """All that are left."""
        return list(self._points)
