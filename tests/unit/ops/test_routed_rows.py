"""Indices sorted by part: distinct, padded, and each element finds its own again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from millrace.ops.padded_unique import padded_length, padding
from millrace.ops.routed_rows import RouteRows


def route(data: Any, partitions: Any, count: int, merge: bool = True) -> Any:
    state: dict[Any, Any] = {}
    session = SimpleNamespace(state_of=lambda node, create: state.setdefault(node, create()))
    return RouteRows.kernel(
        data,
        np.asarray(partitions, np.int32),
        num_partitions=count,
        merge=merge,
        ctx=SimpleNamespace(session=session),
        node=None,
    )


CASES = {
    "frequent": lambda random: random.integers(0, 9, 300),
    "negative": lambda random: random.integers(-50, 50, 300),
    "short": lambda random: random.integers(0, 500, 300).astype(np.int32),
    "far apart": lambda random: random.choice([-(1 << 62), 0, 1 << 62], 300),
    "one": lambda random: np.array([7]),
    "none": lambda random: np.zeros(0, np.int64),
}


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_each_element_finds_itself_in_its_part(case: str, merge: bool) -> None:
    random = np.random.default_rng(0)
    data = CASES[case](random)
    partitions = random.integers(0, 3, data.shape) * 2  # Parts 1 and 3 stay empty.
    parts, places = route(data, partitions, 5, merge)
    joined = np.concatenate(parts)
    assert joined.dtype == data.dtype and places.dtype == np.int32
    np.testing.assert_array_equal(joined[places], data)
    start = 0
    for i, part in enumerate(parts):
        own = part[part != padding(part.dtype)]
        wanted = data[partitions == i]
        np.testing.assert_array_equal(own, np.unique(wanted) if merge else wanted)
        assert (part[len(own) :] == padding(part.dtype)).all()
        here = places[partitions == i]
        assert ((here >= start) & (here < start + len(own))).all()
        start += len(part)


def test_a_part_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"partitions\[1\] = 2 is not in \[0, 2\)"):
        route(np.arange(3), [0, 2, 1], 2)


def test_numbers_that_chance_changes_have_one_length() -> None:
    random = np.random.default_rng(0)
    last = 0
    lengths = set()
    for _ in range(200):
        # About 3070, which is near a border.
        count = len(np.unique(random.integers(0, 500_000, 3080)))
        last = padded_length(count, last)
        assert count <= last <= 1.15 * count
        lengths.add(last)
    assert len(lengths) == 1
