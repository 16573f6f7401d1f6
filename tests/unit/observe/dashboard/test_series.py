"""Series that stay small."""

from __future__ import annotations

from millrace.observe.dashboard.series import Series


def test_a_series_keeps_its_shape_and_its_end_in_a_fixed_room() -> None:
    series = Series(limit=100)
    for i in range(10_000):
        series.add(i, i * i)
    points = series.points()
    assert len(points) <= 100 and points[0] == (0, 0)
    assert points[-10:] == [(i, i * i) for i in range(9_990, 10_000)]
    assert all(y == x * x for x, y in points)


def test_points_of_steps_that_are_repeated_replace_those_before() -> None:
    series = Series()
    for x, y in [(1, 1), (2, 2), (3, 3), (2, 20)]:
        series.add(x, y)
    assert series.points() == [(1, 1), (2, 20)]
