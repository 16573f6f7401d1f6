"""Padding, repetition, diagonals, blocks and patches, against NumPy and by brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf


def run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(fetches, feed)


X = np.arange(12, dtype=np.float32).reshape(3, 4)


def adjoint_holds(y: Any, x: Any, value: np.ndarray) -> None:
    """A linear op's gradient is its transpose: <w, f(x)> = <f'(w), x>."""
    weights = np.random.default_rng(1).normal(size=run(y, {x: value}).shape).astype(np.float32)
    gradient = tf.convert_to_tensor(tf.gradients(y, x, grad_ys=tf.constant(weights))[0])
    found = run([y, gradient], {x: value})
    np.testing.assert_allclose(
        (weights * found[0]).sum(), (found[1] * value).sum(), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("mode", ["constant", "reflect", "symmetric"])
@pytest.mark.parametrize("paddings", [[[1, 2], [0, 3]], [[0, 0], [2, 1]], [[2, 2], [3, 3]]])
def test_padding_is_numpys(mode: str, paddings: Any) -> None:
    x = tf.placeholder(tf.float32, [3, None])
    y = tf.pad(x, paddings, mode)
    np.testing.assert_array_equal(run(y, {x: X}), np.pad(X, paddings, mode))
    adjoint_holds(y, x, X)


def test_mirrors_cannot_show_more_than_there_is() -> None:
    x, p = tf.placeholder(tf.float32), tf.placeholder(tf.int32)
    feed = {x: X, p: [[3, 0], [0, 0]]}
    with pytest.raises(tf.errors.InvalidArgumentError, match="less than the dimension size: 3, 0"):
        run(tf.pad(x, p, "REFLECT"), feed)
    assert run(tf.pad(x, p, "SYMMETRIC"), feed).shape == (6, 4)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be non-negative: 1 -1"):
        run(tf.pad(x, p), {x: X, p: [[1, -1], [0, 0]]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be the rank of inputs"):
        run(tf.pad(x, p), {x: X, p: [[1, 1]]})


def test_padding_with_a_value_that_is_a_tensor_or_a_string() -> None:
    v = tf.placeholder(tf.float32, [])
    assert run(tf.pad([1.0], [[1, 0]], constant_values=v), {v: 7.0}).tolist() == [7, 1]
    words = tf.pad(["a"], [[0, 2]], constant_values="-")
    assert run(words).tolist() == [b"a", b"-", b"-"]


def test_tile_roll_reverse_and_repeat_are_numpys() -> None:
    x = tf.placeholder(tf.float32, [None, None])
    pairs = [
        (tf.tile(x, [2, 3]), np.tile(X, [2, 3])),
        (tf.tile(x, [0, 1]), np.tile(X, [0, 1])),
        (tf.roll(x, [1, -2], [0, 1]), np.roll(X, [1, -2], [0, 1])),
        (tf.reverse(x, [0, -1]), X[::-1, ::-1]),
        (tf.repeat(x, 2, axis=1), np.repeat(X, 2, axis=1)),
        (tf.repeat(x, [2, 0, 1], axis=0), np.repeat(X, [2, 0, 1], axis=0)),
        (tf.repeat(x, [1, 3, 0, 2], axis=1), np.repeat(X, [1, 3, 0, 2], axis=1)),
        (tf.matrix_transpose(x), X.T),
    ]
    for found, (_, expected) in zip(run([y for y, _ in pairs], {x: X}), pairs, strict=True):
        np.testing.assert_array_equal(found, expected)
    for y, _ in pairs[:6]:
        adjoint_holds(y, x, X)


def test_a_shift_that_is_fed_is_not_compiled_again() -> None:
    x, shift = tf.placeholder(tf.float32, [None, None]), tf.placeholder(tf.int32, [])
    y = tf.roll(x, shift, 1)
    with tf.Session() as session:
        prepared = session._backend.prepare([y], [], [x, shift])
        for k in (1, 2, -3):
            values = [X, np.array(k, np.int32)]
            found = session._backend.run(prepared, values, None, None)
            np.testing.assert_array_equal(found[0], np.roll(X, k, 1))
        assert sum(stage.programs.counts.compiles for stage in prepared.plan.stages) == 1


@pytest.mark.parametrize(("batch", "sequence"), [(0, 1), (1, 0), (2, 1), (0, 2)])
def test_sequences_are_reversed_up_to_their_length(batch: int, sequence: int) -> None:
    values = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    lengths = np.arange(values.shape[batch]) % (values.shape[sequence] + 1)
    x = tf.placeholder(tf.float32, [3, 4, 5])
    y = tf.reverse_sequence(x, lengths, seq_axis=sequence, batch_axis=batch)
    expected = np.moveaxis(values, (batch, sequence), (0, 1)).copy()
    for row, length in zip(expected, lengths, strict=True):
        row[:length] = row[:length][::-1].copy()
    expected = np.moveaxis(expected, (0, 1), (batch, sequence))
    np.testing.assert_array_equal(run(y, {x: values}), expected)
    adjoint_holds(y, x, values)


def test_a_sequence_longer_than_its_axis_is_named() -> None:
    n = tf.placeholder(tf.int32, [None])
    y = tf.reverse_sequence(tf.constant(X), n, 1, 0)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"seq_lens\(1\) > input.dims\(1\)"):
        run(y, {n: [1, 9, 2]})


@pytest.mark.parametrize("align", ["LEFT_LEFT", "LEFT_RIGHT", "RIGHT_LEFT", "RIGHT_RIGHT"])
@pytest.mark.parametrize("band", [(0, 0), (-1, 2), (1, 2), (-2, -1), (-1, 1)])
def test_bands_taken_out_of_a_matrix_can_be_put_back(band: tuple[int, int], align: str) -> None:
    values = np.arange(1, 21, dtype=np.float32).reshape(4, 5)
    x = tf.placeholder(tf.float32, [4, None])
    part = tf.matrix_diag_part(x, k=band, align=align, padding_value=-1)
    matrix = tf.matrix_diag(part, k=band, num_rows=4, num_cols=5, align=align)
    replaced = tf.matrix_set_diag(x, -part, k=band, align=align)
    found = run([part, matrix, replaced], {x: values})
    i, j = np.indices(values.shape)
    inside = (j - i >= band[0]) & (j - i <= band[1])
    np.testing.assert_array_equal(found[1], np.where(inside, values, 0))
    np.testing.assert_array_equal(found[2], np.where(inside, -values, values))
    rows = found[0].reshape(band[1] - band[0] + 1, -1)
    for row, k in zip(rows, range(band[1], band[0] - 1, -1), strict=True):
        diagonal = np.diagonal(values, k)
        above, below = align.split("_")
        left = (k >= 0 and above == "LEFT") or (k <= 0 and below == "LEFT")
        spare = len(row) - len(diagonal)
        expected = np.pad(diagonal, (0, spare) if left else (spare, 0), constant_values=-1)
        np.testing.assert_array_equal(row, expected)
    if align == "RIGHT_LEFT":
        adjoint_holds(tf.matrix_diag_part(x, k=band, align=align), x, values)


def test_diagonals_of_whole_tensors_and_bands() -> None:
    x = tf.placeholder(tf.float32, [2, 3])
    found = run([tf.diag(x), tf.diag_part(tf.diag(x))], {x: X[:2, :3]})
    assert found[0].shape == (2, 3, 2, 3)
    assert found[0].sum() == X[:2, :3].sum()
    np.testing.assert_array_equal(found[1], X[:2, :3])
    lower = tf.placeholder(tf.int32, [])
    band = tf.matrix_band_part(tf.constant(X), lower, 0)
    np.testing.assert_array_equal(run(band, {lower: 1}), np.tril(X) - np.tril(X, -2))
    with pytest.raises(tf.errors.InvalidArgumentError, match="number of rows \\(3\\) got: 9"):
        run(band, {lower: 9})


def test_identity_matrices_of_sizes_known_and_unknown() -> None:
    n = tf.placeholder(tf.int32, [])
    found = run([tf.eye(n), tf.eye(2, n, batch_shape=[2]), tf.eye(3, dtype=tf.bool)], {n: 3})
    np.testing.assert_array_equal(found[0], np.eye(3))
    np.testing.assert_array_equal(found[1], np.stack([np.eye(2, 3)] * 2))
    np.testing.assert_array_equal(found[2], np.eye(3, dtype=bool))
    assert tf.eye(2, 3).shape.as_list() == [2, 3]
    with pytest.raises(TypeError, match="num_rows"):
        tf.eye(2.5)


def test_blocks_go_to_the_batch_and_back() -> None:
    values = np.arange(2 * 5 * 4 * 3, dtype=np.float32).reshape(2, 5, 4, 3)
    x = tf.placeholder(tf.float32, [None, 5, 4, 3])
    paddings, crops = tf.required_space_to_batch_paddings([5, 4], [2, 3])
    there = tf.space_to_batch_nd(x, [2, 3], paddings)
    back = tf.batch_to_space_nd(there, [2, 3], crops)
    found = run([there, back], {x: values})
    assert found[0].shape == (12, 3, 2, 3)
    padded = np.pad(values, [(0, 0), (0, 1), (0, 2), (0, 0)])
    # Batch entry (i * 3 + j) * 2 + b has every second row from i and every third column from j.
    np.testing.assert_array_equal(found[0][(1 * 3 + 2) * 2], padded[0, 1::2, 2::3])
    np.testing.assert_array_equal(found[1], values)
    adjoint_holds(there, x, values)
    adjoint_holds(back, x, values)


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_blocks_go_to_the_depth_and_back(data_format: str) -> None:
    values = np.arange(2 * 4 * 6 * 3, dtype=np.float32).reshape(2, 4, 6, 3)
    if data_format == "NCHW":
        values = values.transpose(0, 3, 1, 2).copy()
    x = tf.placeholder(tf.float32, values.shape)
    deep = tf.space_to_depth(x, 2, data_format=data_format)
    wide = tf.depth_to_space(deep, 2, data_format=data_format)
    expected = [2, 2, 3, 12] if data_format == "NHWC" else [2, 12, 2, 3]
    assert deep.shape.as_list() == expected
    found = run([deep, wide], {x: values})
    assert found[0].shape == tuple(expected)
    np.testing.assert_array_equal(found[1], values)
    adjoint_holds(deep, x, values)


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
def test_patches_are_what_a_window_sees(padding: str) -> None:
    values = np.arange(1, 1 + 5 * 6 * 2, dtype=np.float32).reshape(1, 5, 6, 2)
    x = tf.placeholder(tf.float32, [None, 5, 6, 2])
    patches = tf.extract_image_patches(x, [1, 2, 3, 1], [1, 2, 1, 1], [1, 2, 1, 1], padding)
    found = run(patches, {x: values})
    # A window of 2 × 3 with rows two apart sees 3 × 3 pixels.
    rows, columns = (2, 4) if padding == "VALID" else (3, 6)
    top, left = (0, 0) if padding == "VALID" else (1, 1)
    padded = np.pad(values, [(0, 0), (top, 4), (left, 4), (0, 0)])
    assert found.shape == (1, rows, columns, 12)
    assert patches.shape.as_list() == [None, rows, columns, 12]
    for i in range(rows):
        for j in range(columns):
            window = padded[0, 2 * i : 2 * i + 3 : 2, j : j + 3]
            np.testing.assert_array_equal(found[0, i, j], window.reshape(-1))
    adjoint_holds(patches, x, values)


def test_patches_of_volumes() -> None:
    values = np.arange(27, dtype=np.float32).reshape(1, 3, 3, 3, 1)
    found = run(tf.extract_volume_patches(values, [1, 2, 2, 2, 1], [1, 1, 1, 1, 1], "VALID"))
    assert found.shape == (1, 2, 2, 2, 8)
    np.testing.assert_array_equal(found[0, 1, 0, 1], values[0, 1:3, 0:2, 1:3].reshape(-1))


def test_an_inverse_permutation_undoes_and_a_bad_one_is_named() -> None:
    p = tf.placeholder(tf.int32, [None])
    inverse = tf.invert_permutation(p)
    assert run(inverse, {p: [2, 0, 1]}).tolist() == [1, 2, 0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="1 is duplicated"):
        run(inverse, {p: [1, 1, 0]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="7 is not between 0 and 2"):
        run(inverse, {p: [0, 7]})


def test_strings_are_rearranged_on_the_host() -> None:
    words = tf.placeholder(tf.string, [None, None])
    table = [["a", "b"], ["c", "d"]]
    found = run(
        [
            tf.transpose(words),
            tf.tile(words, [1, 2]),
            tf.reverse(words, [0]),
            tf.roll(words, 1, 1),
            tf.reverse_sequence(words, [2, 1], 1, 0),
            tf.broadcast_to(words[:, :1], [2, 2]),
            tf.matrix_band_part(words, 0, 0),
            tf.space_to_batch_nd(words, [2], [[0, 0]]),
            tf.where([True, False], words, tf.reverse(words, [1])),
            tf.zeros_like(words),
        ],
        {words: table},
    )
    texts = [[[w.decode() for w in row] for row in value] for value in found]
    assert texts == [
        [["a", "c"], ["b", "d"]],
        [["a", "b", "a", "b"], ["c", "d", "c", "d"]],
        [["c", "d"], ["a", "b"]],
        [["b", "a"], ["d", "c"]],
        [["b", "a"], ["c", "d"]],
        [["a", "a"], ["c", "c"]],
        [["a", ""], ["", "d"]],
        [["a"], ["c"], ["b"], ["d"]],
        [["a", "b"], ["d", "c"]],
        [["", ""], ["", ""]],
    ]
