"""Kernels for NumPy alone give what the full kernels give, and errors in the same words.

A stage's first run is node by node, with the full kernels; its second one is a tape, with those
for NumPy alone (decision 18).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import millrace as tf

_ROWS = np.arange(24, dtype=np.float32).reshape(4, 3, 2) / 7 - 1
_MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4) / 5 - 1

#: What is built of placeholders, and what they are fed.
_CASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "sigmoid": (tf.sigmoid, [_ROWS]),
    "sigmoid of a scalar": (tf.sigmoid, [np.float32(0.5)]),
    "sigmoid of doubles": (tf.sigmoid, [_ROWS.astype(np.float64)]),
    "gradient of sigmoid": (lambda x: tf.gradients(tf.sigmoid(x), x)[0], [_ROWS]),
    "gradient of tanh": (lambda x: tf.gradients(tf.tanh(x), x)[0], [_ROWS]),
    "gradients of scalars": (
        lambda x: tf.gradients(tf.tanh(x) * tf.sigmoid(x), x)[0],
        [np.float32(0.5)],
    ),
    "slice": (lambda x: tf.slice(x, [1, 0], [-1, 2]), [_MATRIX]),
    "slice by values": (tf.slice, [_MATRIX, np.int32([0, 1]), np.int32([2, -1])]),
    "split": (lambda x: tf.split(x, 2, 1), [_MATRIX]),
    "split along the last axis": (lambda x: tf.split(x, 2, -1), [_ROWS]),
    "split along the first axis": (lambda x: tf.split(x, 2, 0), [_ROWS]),
    "shapes": (
        lambda x, y: [*tf.shape_n([x, y]), tf.shape(x, out_type=tf.int64)],
        [_ROWS, _MATRIX],
    ),
    "sum of three": (lambda x: tf.add_n([x, x, 2 * x]), [_MATRIX]),
    "range": (lambda a, b: tf.range(a, b, 3), [np.int32(2), np.int32(10)]),
    "range downwards": (lambda a: tf.range(a, 0, -2), [np.int32(7)]),
    "empty range": (lambda a: tf.range(a, 3), [np.int32(3)]),
    "range of numbers": (lambda a: tf.range(a, 1.0, 0.1), [np.float32(0.1)]),
    "rows chosen": (
        lambda c, x: tf.where(c, x, -x),
        [np.array([True, False, True]), _MATRIX],
    ),
    "all rows chosen": (lambda c, x: tf.where(c, x, -x), [np.ones(3, bool), _MATRIX]),
    "no rows chosen": (lambda c, x: tf.where(c, x, -x), [np.zeros(3, bool), _MATRIX]),
    "sequences turned": (
        lambda x, n: tf.reverse_sequence(x, n, seq_axis=1),
        [_ROWS, np.int64([0, 1, 3, 2])],
    ),
    "sequences turned, time first": (
        lambda x, n: tf.reverse_sequence(x, n, seq_axis=0, batch_axis=1),
        [_ROWS, np.int32([4, 0, 3])],
    ),
    "offsets": (
        lambda x, y: tf.raw_ops.ConcatOffset(concat_dim=1, shape=[x, y, x]),
        [np.int32([2, 3]), np.int32([2, 4])],
    ),
}

#: The same with inputs that are refused, and what is said.
_REFUSED: dict[str, tuple[Callable[..., Any], list[Any], str]] = {
    "slice": (
        tf.slice,
        [_MATRIX, np.int32([0, 3]), np.int32([2, 2])],
        r"Expected size\[1\] in \[0, 1\], but got 2",
    ),
    "split": (lambda x: tf.split(x, 3, 1), [_MATRIX], "evenly divide the split dimension"),
    "sum": (lambda x, y: tf.add_n([x, y]), [_MATRIX, _ROWS[0]], "must have the same size"),
    "range": (lambda a: tf.range(a, 3), [np.int32(5)], "Requires start <= limit"),
    "sequences": (
        lambda x, n: tf.reverse_sequence(x, n, seq_axis=1),
        [_ROWS, np.int64([0, 1, 4, 2])],
        r"seq_lens\(2\) > input.dims\(1\)",
    ),
}


@pytest.fixture(autouse=True)
def _on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_COMPILE", "never")


def _placeholders(values: list[Any]) -> dict[Any, Any]:
    """Of unknown sizes, so that nothing is known before the run."""
    return {tf.placeholder(np.asarray(v).dtype, [None] * np.ndim(v)): np.asarray(v) for v in values}


@pytest.mark.parametrize("name", _CASES)
def test_the_first_run_and_the_second_give_the_same(name: str) -> None:
    build, values = _CASES[name]
    feed = _placeholders(values)
    made = build(*feed)
    with tf.Session() as sess:
        first, second = sess.run(made, feed), sess.run(made, feed)
    tf.nest.map_structure(np.testing.assert_array_equal, first, second)
    for one, other in zip(tf.nest.flatten(first), tf.nest.flatten(second), strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype


@pytest.mark.parametrize("name", _REFUSED)
def test_both_runs_refuse_in_the_same_words(name: str) -> None:
    build, values, words = _REFUSED[name]
    feed = _placeholders(values)
    made = build(*feed)
    with tf.Session() as sess:
        for _ in range(3):
            with pytest.raises(tf.errors.InvalidArgumentError, match=words):
                sess.run(made, feed)
