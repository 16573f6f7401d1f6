"""Rows are added up by number, with SciPy's loops and without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from millrace.ops import row_sums


def added(dtype: Any) -> tuple[Any, Any]:
    random = np.random.RandomState(0)
    rows = random.randn(50, 3).astype(dtype)
    to, source = random.randint(0, 7, 200), random.randint(0, 50, 200)
    wanted = np.ones((7, 3), dtype)
    for k in range(200):
        wanted[to[k]] += rows[source[k]]
    total = np.ones((7, 3), dtype)
    row_sums.add_rows(total, to.astype(np.int32), rows, source.astype(np.int32))
    return total, wanted


def test_there_is_a_loop_for_rows() -> None:
    assert row_sums._loop() is not None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_added_up_in_their_order(dtype: Any) -> None:
    total, wanted = added(dtype)
    np.testing.assert_array_equal(total, wanted)


def test_sums_are_the_same_without_scipys_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_sums, "_loop", lambda: None)
    total, wanted = added(np.float32)
    np.testing.assert_array_equal(total, wanted)


def test_no_rows_are_added_to_nothing() -> None:
    total = np.zeros((0, 4), np.float32)
    none = np.zeros(0, np.int32)
    row_sums.add_rows(total, none, np.zeros((0, 4), np.float32), none)
    assert total.shape == (0, 4)
