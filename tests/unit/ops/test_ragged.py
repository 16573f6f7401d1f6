"""Ragged tensors. The figures are TensorFlow 1.15.5's for the same calls."""

from typing import Any

import numpy as np
import pytest

import millrace as tf


def _value(fetch: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        found = session.run(fetch, feed)
    return found.to_list() if hasattr(found, "to_list") else np.asarray(found).tolist()


def _two() -> Any:
    return tf.ragged.constant([[1, 2, 3], [], [4, 5], [6]])


def _three() -> Any:
    return tf.ragged.constant([[[1, 2], [3]], [], [[4, 5, 6]]])


CASES: dict[str, tuple[Any, Any]] = {
    "to_tensor": (lambda: _two().to_tensor(), [[1, 2, 3], [0, 0, 0], [4, 5, 0], [6, 0, 0]]),
    "to_tensor of three dimensions": (
        lambda: _three().to_tensor(9),
        [[[1, 2, 9], [3, 9, 9]], [[9, 9, 9], [9, 9, 9]], [[4, 5, 6], [9, 9, 9]]],
    ),
    "a row": (lambda: _two()[-1], [6]),
    "rows": (lambda: _two()[::2], [[1, 2, 3], [4, 5]]),
    "the tail of each row": (lambda: _two()[:, 1:], [[2, 3], [], [5], []]),
    "all but the last": (lambda: _two()[:, :-1], [[1, 2], [], [4], []]),
    "a row of a row": (lambda: _three()[0, 1], [3]),
    "an ellipsis": (lambda: _three()[..., 1:], [[[2], []], [], [[5, 6]]]),
    "a new axis": (lambda: _two()[:, tf.newaxis], [[[1, 2, 3]], [[]], [[4, 5]], [[6]]]),
    "sum of columns": (lambda: tf.reduce_sum(_two(), axis=0), [11, 7, 3]),
    "sum of rows": (lambda: tf.reduce_sum(_two(), axis=1), [6, 0, 9, 6]),
    "sum of outer rows": (lambda: tf.reduce_sum(_three(), axis=0), [[5, 7, 6], [3]]),
    "sum of rows of rows": (lambda: tf.reduce_sum(_three(), axis=1), [[4, 2], [], [4, 5, 6]]),
    "sum of the innermost": (lambda: tf.reduce_sum(_three(), axis=2), [[3, 3], [], [15]]),
    "any": (lambda: tf.reduce_any(_two() > 4, axis=1), [False, False, True, True]),
    "below each other": (
        lambda: tf.concat([_two()[:1], _two()[2:]], 0),
        [[1, 2, 3], [4, 5], [6]],
    ),
    "side by side": (
        lambda: tf.concat([_two(), _two()], 1),
        [[1, 2, 3, 1, 2, 3], [], [4, 5, 4, 5], [6, 6]],
    ),
    "stacked": (
        lambda: tf.stack([_two()[2:], _two()[2:]]),
        [[[4, 5], [6]], [[4, 5], [6]]],
    ),
    "rows by number": (lambda: tf.gather(_two(), [2, 0]), [[4, 5], [1, 2, 3]]),
    "ragged numbers": (
        lambda: tf.gather(tf.constant([10, 20, 30]), tf.ragged.constant([[0, 2], [1]])),
        [[10, 30], [20]],
    ),
    "operators": (lambda: (_two() + 1) * _two(), [[2, 6, 12], [], [20, 30], [42]]),
    "masked": (
        lambda: tf.ragged.boolean_mask(_two(), tf.equal(_two() % 2, 0)),
        [[2], [], [4], [6]],
    ),
    "ranges": (
        lambda: tf.ragged.range([0, 5, 8], [3, 3, 12]),
        [[0, 1, 2], [], [8, 9, 10, 11]],
    ),
    "from row lengths": (
        lambda: tf.RaggedTensor.from_row_lengths([1, 2, 3], [2, 0, 1]),
        [[1, 2], [], [3]],
    ),
    "from numbers of rows": (
        lambda: tf.RaggedTensor.from_value_rowids([1, 2, 3], [0, 2, 2], 5),
        [[1], [], [2, 3], [], []],
    ),
    "from a padded tensor": (
        lambda: tf.RaggedTensor.from_tensor([[1, 2, 0], [3, 0, 0]], padding=0),
        [[1, 2], [3]],
    ),
    "through a sparse tensor": (
        lambda: tf.RaggedTensor.from_sparse(_two().to_sparse()),
        [[1, 2, 3], [], [4, 5], [6]],
    ),
    "partitions": (
        lambda: tf.ragged.stack_dynamic_partitions([1, 2, 3, 4], [1, 0, 1, 3], 4),
        [[2], [1, 3], [], [4]],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_values_are_tensorflows(case: str) -> None:
    build, expected = CASES[case]
    assert _value(build()) == expected


def test_gradients_reach_the_values_of_a_ragged_tensor() -> None:
    x = tf.placeholder(tf.float32, [None])
    ragged = tf.RaggedTensor.from_row_splits(x, [0, 2, 3])
    squares = tf.reduce_sum(ragged.to_tensor() ** 2)
    loss = squares + tf.reduce_sum(tf.reduce_mean(ragged * ragged, axis=1))
    assert _value(tf.gradients(loss, x)[0], {x: [1, 2, 3]}) == [3, 6, 12]


def test_a_ragged_placeholder_is_fed_with_a_ragged_value() -> None:
    ragged = tf.ragged.placeholder(tf.float32, 1)
    value = tf.ragged.constant_value([[1.0, 2.0], [3.0]], dtype=np.float32)
    assert _value(ragged * 2.0, {ragged: value}) == [[2, 4], [6]]


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: _two()[:, 1], "Cannot index into an inner ragged dimension"),
        (lambda: tf.ragged.constant([[1], 2]), "all scalar values must have the same nesting"),
        (lambda: tf.RaggedTensor([1], [0, 1]), "RaggedTensor constructor is private"),
    ],
)
def test_what_makes_no_ragged_tensor_is_refused(build: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        build()
