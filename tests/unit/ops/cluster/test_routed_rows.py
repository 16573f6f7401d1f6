"""Ids of tables in parts are sorted by part and made distinct."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from millrace.ops.cluster import routed_rows


class Context:
    """Keeps the lengths of one node."""

    def __init__(self) -> None:
        self.session = self
        self.state: Any = None

    def state_of(self, node: Any, make: Any) -> Any:
        self.state = self.state or make()
        return self.state


def of_ids(ids: Any, count: int, total: int, placed: bool = True) -> Any:
    return routed_rows.RouteIds.kernel(
        ids, num_partitions=count, num_ids=total, placed=placed, ctx=Context(), node=None
    )


def of_rows(ids: Any, count: int, total: int) -> Any:
    rows, parts = routed_rows._rows_and_parts(ids.reshape(-1), count, total)
    return routed_rows.RouteRows.kernel(
        rows, parts, num_partitions=count, merge=True, placed=True, ctx=Context(), node=None
    )


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(("count", "total"), [(2, 1000), (3, 1000), (7, 1000), (3, 0), (1, 1000)])
def test_ids_go_where_their_parts_and_rows_say(dtype: Any, count: int, total: int) -> None:
    ids = np.random.RandomState(0).randint(0, 1000, (40, 5)).astype(dtype)
    ids[0] = [999, 0, 0, 999, 500]
    found, wanted = of_ids(ids, count, total), of_rows(ids, count, total)
    for mine, other in zip(found, wanted, strict=True):
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype
    parts, places, elements, numbers = found
    everything = np.concatenate(parts)[places]
    rows, _ = routed_rows._rows_and_parts(ids.reshape(-1), count, total)
    np.testing.assert_array_equal(everything, rows)
    for part, element, number in zip(parts, elements, numbers, strict=True):
        np.testing.assert_array_equal(part[number], rows[element])


def test_places_that_nobody_looks_at_are_only_counted() -> None:
    ids = np.arange(10)
    assert of_ids(ids, 2, 10, placed=False)[1].shape == (10,)


@pytest.mark.parametrize("ids", [[3, 1000, 4], [-1, 3], [3, 1 << 62]])
def test_an_id_of_no_part_is_refused_as_before(ids: list[int]) -> None:
    with pytest.raises(ValueError, match=r"partitions\[[01]\] = -?\d+ is not in \[0, 2\)"):
        of_ids(np.asarray(ids), 2, 1000)


def test_a_negative_id_that_goes_round_is_left_to_its_part() -> None:
    parts, *_ = of_ids(np.asarray([-1, 4]), 2, 0)
    assert parts[1][0] == -1 and parts[0][0] == 2


def test_no_ids_are_no_rows() -> None:
    parts, places, elements, numbers = of_ids(np.zeros((0, 3), np.int64), 2, 1000)
    assert places.shape == (0,)
    assert all((part == np.iinfo(np.int64).max).all() for part in parts)
    assert not any(map(len, (*elements, *numbers)))


def test_large_ids_that_go_round_keep_their_rows() -> None:
    ids = np.asarray([2**31 - 1, 5, 2**31 - 1, 4], np.int32)
    parts, places, *_ = of_ids(ids, 3, 0)
    np.testing.assert_array_equal(np.concatenate(parts)[places], ids // 3)
