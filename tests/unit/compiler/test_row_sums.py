"""Rows are added up by number, with SciPy's loops and without."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from millrace.compiler import row_sums


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


def takes_other_arguments(rows: Any, total: Any) -> None:
    raise AssertionError("called although its arguments are others")


def means_something_else(*arguments: Any) -> None:
    arguments[-1].fill(1)


LOST = {
    "the package": lambda: None,
    "the file": lambda: ModuleSpec("scipy", None, is_package=True),
}
CHANGED = {
    "the name": SimpleNamespace(),
    "the arguments": SimpleNamespace(coo_matmat_dense=takes_other_arguments),
    "the meaning": SimpleNamespace(coo_matmat_dense=means_something_else),
}


@pytest.fixture
def forgotten() -> Iterator[None]:
    """A loop that was found before, or in the test, is looked for again."""
    row_sums._loop.cache_clear()
    yield
    row_sums._loop.cache_clear()


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("what", LOST)
def test_sums_are_the_same_when_scipy_is_lost(
    what: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: LOST[what]())
    total, wanted = added(dtype)
    assert row_sums._loop() is None
    np.testing.assert_array_equal(total, wanted)


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("what", CHANGED)
def test_sums_are_the_same_when_scipys_loop_is_another(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_sums, "_load", lambda: CHANGED[what])
    total, wanted = added(np.float32)
    assert row_sums._loop() is None
    np.testing.assert_array_equal(total, wanted)


@pytest.mark.usefixtures("forgotten")
def test_sums_are_the_same_when_scipys_loops_do_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise ImportError("undefined symbol")

    monkeypatch.setattr(row_sums, "_load", fails)
    total, wanted = added(np.float32)
    assert row_sums._loop() is None
    np.testing.assert_array_equal(total, wanted)


def test_no_rows_are_added_to_nothing() -> None:
    total = np.zeros((0, 4), np.float32)
    none = np.zeros(0, np.int32)
    row_sums.add_rows(total, none, np.zeros((0, 4), np.float32), none)
    assert total.shape == (0, 4)
