"""Updates of rows picked by data are one XLA call, and their results the same as without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.compiler.xla import jnp
from millrace.passes.pad_unique import pad_unique

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adagrad": lambda: tf.train.AdagradOptimizer(0.5),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.1),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(0.1),
    "descent": lambda: tf.train.GradientDescentOptimizer(0.1),
}
IDS = np.array([[3, 1, 3], [9, 0, 1]], np.int32)


def table_of(parts: int, resource: bool, strategy: str = "mod") -> Any:
    start = np.arange(20, dtype=np.float32).reshape(10, 2) / 10
    if parts == 1:
        return tf.get_variable("t", initializer=start, use_resource=resource)
    rows = [start[i::parts] for i in range(parts)]
    if strategy == "div":
        rows = np.array_split(start, parts)
    return [
        tf.get_variable(f"t{i}", initializer=part, use_resource=resource)
        for i, part in enumerate(rows)
    ]


def trained(
    optimizer: str, parts: int, resource: bool, strategy: str, steps: int = 3
) -> tuple[list[Any], int]:
    """All variables and losses after some steps, and the XLA calls of the last."""
    with tf.Graph().as_default(), tf.Session() as sess:
        ids = tf.placeholder(tf.int32, [None, 3])
        table = table_of(parts, resource, strategy)
        rows = tf.nn.embedding_lookup(table, ids, partition_strategy=strategy)
        loss = tf.reduce_sum(tf.square(rows - 1.0) * [[[1.0], [2.0], [3.0]]])
        train = OPTIMIZERS[optimizer]().minimize(loss)
        sess.run(tf.global_variables_initializer())
        found = [sess.run([loss, train], {ids: IDS})[0] for _ in range(steps)]
        before = sess._backend.xla_calls
        sess.run(train, {ids: IDS})
        calls = sess._backend.xla_calls - before
        return [*found, *sess.run(tf.global_variables())], calls


@pytest.mark.parametrize(
    ("optimizer", "resource"),
    [(o, False) for o in OPTIMIZERS] + [("adagrad", True), ("adam", True)],
)
def test_a_training_step_of_an_embedding_is_one_call_with_the_same_result(
    optimizer: str, resource: bool, without_pass: Any
) -> None:
    padded, calls = trained(optimizer, 1, resource, "mod")
    assert calls == 1
    without_pass(pad_unique)
    exact, _ = trained(optimizer, 1, resource, "mod")
    for found, wanted in zip(padded, exact, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("optimizer", "strategy", "resource"),
    [("adagrad", "mod", False), ("descent", "div", False), ("adagrad", "div", True)],
)
def test_a_table_in_parts_is_one_call_too(
    optimizer: str, strategy: str, resource: bool, without_pass: Any
) -> None:
    padded, calls = trained(optimizer, 3, resource, strategy)
    assert calls == 1
    without_pass(pad_unique)
    exact, _ = trained(optimizer, 3, resource, strategy)
    for found, wanted in zip(padded, exact, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_two_lookups_of_one_table_are_one_call(without_pass: Any) -> None:
    def run() -> tuple[Any, int]:
        with tf.Graph().as_default(), tf.Session() as sess:
            a, b = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int64, [2])
            table = table_of(2, False)
            loss = sum(tf.reduce_sum(tf.nn.embedding_lookup(table, i) ** 2) for i in (a, b))
            train = tf.train.AdagradOptimizer(0.5).minimize(loss)
            sess.run(tf.global_variables_initializer())
            feed = {a: [1, 2, 7, 1], b: [1, 8]}
            sess.run(train, feed)
            before = sess._backend.xla_calls
            sess.run(train, feed)
            calls = sess._backend.xla_calls - before
            return sess.run(tf.global_variables()), calls

    padded, calls = run()
    assert calls == 1
    without_pass(pad_unique)
    for found, wanted in zip(padded, run()[0], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("parts", [1, 3])
def test_gradients_that_are_clipped_by_their_norm_are_one_call(
    parts: int, without_pass: Any
) -> None:
    def run() -> tuple[Any, int]:
        with tf.Graph().as_default(), tf.Session() as sess:
            ids = tf.placeholder(tf.int64, [None])
            loss = tf.reduce_sum(tf.nn.embedding_lookup(table_of(parts, False), ids) ** 2)
            optimizer = tf.train.AdagradOptimizer(0.5)
            gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
            clipped, norm = tf.clip_by_global_norm(gradients, 0.5)
            train = optimizer.apply_gradients(zip(clipped, variables, strict=True))
            sess.run(tf.global_variables_initializer())
            found = sess.run([norm, train], {ids: [1, 2, 7, 1]})[0]
            before = sess._backend.xla_calls
            sess.run(train, {ids: [1, 2, 7, 1]})
            calls = sess._backend.xla_calls - before
            return [found, *sess.run(tf.global_variables())], calls

    padded, calls = run()
    assert calls == 1
    without_pass(pad_unique)
    for found, wanted in zip(padded, run()[0], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("parts", [1, 2])
def test_a_row_that_is_not_there_fails_the_step_and_changes_nothing(parts: int) -> None:
    ids = tf.placeholder(tf.int32, [None])
    table = table_of(parts, False)
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, ids))
    train = tf.train.AdagradOptimizer(0.5).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        before = sess.run(tf.global_variables())
        for bad in (10, -3, 2**31 - 1):
            with pytest.raises(tf.errors.InvalidArgumentError):
                sess.run(train, {ids: [1, bad]})
        for old, new in zip(before, sess.run(tf.global_variables()), strict=True):
            np.testing.assert_array_equal(old, new)


def test_an_update_whose_indices_are_out_of_range_says_which() -> None:
    ids = tf.placeholder(tf.int64, [None])
    table = table_of(1, False)
    slices = tf.IndexedSlices(tf.ones([3, 2]), ids, tf.constant([10, 2]))
    train = tf.train.MomentumOptimizer(0.5, 0.9).apply_gradients([(slices, table)])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="Index 44 at offset 2"):
            sess.run(train, {ids: [2, 2, 44]})
        with pytest.raises(tf.errors.InvalidArgumentError, match=str(2**63 - 1)):
            sess.run(train, {ids: [2, 2, 2**63 - 1]})


def test_who_looks_at_the_distinct_values_sees_no_padding() -> None:
    ids = tf.constant([4, 2, 4, 1])
    distinct, places = tf.unique(ids + 0)
    summed = tf.unsorted_segment_sum(tf.ones([4, 2]), places, tf.shape(distinct)[0])
    table = table_of(1, False)
    update = tf.scatter_add(table, distinct, summed)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        start = sess.run(table)
        assert sess.run([distinct, update])[0].tolist() == [4, 2, 1]
        assert sess.run(tf.reduce_mean(summed)) == pytest.approx(4 / 3)
        before = sess._backend.xla_calls
        after = sess.run(update)
        assert sess._backend.xla_calls - before == 1
        np.testing.assert_array_equal(after[4] - start[4], [4, 4])


def test_parts_that_somebody_sees_have_their_own_lengths() -> None:
    x = tf.placeholder(tf.int32, [None])
    even, odd = tf.dynamic_partition(x, x % 2, 2)
    places = tf.dynamic_partition(tf.range(tf.size(x)), x % 2, 2)
    back = tf.dynamic_stitch(places, [even * 10, odd])
    with tf.Session() as sess:
        found = sess.run([even, odd, back], {x: [1, 2, 3, 5]})
    assert [f.tolist() for f in found] == [[2], [1, 3, 5], [1, 20, 3, 5]]


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
def test_many_ids_meet_in_few_rounds_and_repeat_where_they_first_occur(xp: Any) -> None:
    from millrace.ops.cluster.padded_unique import PaddedUnique

    rng = np.random.default_rng(0)
    for x in (
        rng.integers(-50, 50, 1000).astype(np.int32),
        (rng.integers(0, 300, 1000) << 33),
        np.zeros(5, np.int64),
        np.arange(0, 1 << 20, 1 << 10, dtype=np.int32),
    ):
        y, first = PaddedUnique.kernel(x, padded=False, check=lambda ok, *_: None, xp=xp)
        _, places, inverse = np.unique(x, return_index=True, return_inverse=True)
        np.testing.assert_array_equal(first, places[inverse])
        kept = np.asarray(y) != np.iinfo(x.dtype).max
        np.testing.assert_array_equal(np.flatnonzero(kept), np.sort(places))
