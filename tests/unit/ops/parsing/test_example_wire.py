"""Integers of Example messages: decoded one by one when few, all at once when many."""

from __future__ import annotations

import numpy as np
import pytest

import millrace as tf
from millrace.ops.parsing import example_wire as wire

LISTS = [[1], [], [-1, 2**63 - 1, -(2**63)], [127, 128, 300], [0]]


def encoded(values: list[int]) -> bytes:
    feature = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return wire.list_of(feature.SerializeToString())[1]


@pytest.mark.parametrize("limit", [0, 10_000])
def test_few_and_many_integers_decode_alike(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "_FEW_BYTES", limit)
    values, counts = wire.integers([encoded(row) for row in LISTS])
    assert values.dtype == np.int64
    assert values.tolist() == [v for row in LISTS for v in row]
    assert counts.tolist() == [len(row) for row in LISTS]


def test_a_number_that_is_cut_off_is_an_error() -> None:
    with pytest.raises(IndexError):
        wire.integers([b"\x0a\x01\xff"])
