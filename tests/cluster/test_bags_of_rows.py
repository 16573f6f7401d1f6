"""Rows that are looked up only to be added up are never put side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.passes.bag_rows import bag_rows
from millrace.runtime.stages import rows

ROWS, WIDTH = 40, 4
BATCHES = (
    [[1, 1, 39], [20, 2, 1], [0, 19, 20]],
    [[5, 5, 5], [5, 5, 5]],
    [[0, 1, 2], [20, 21, 22], [39, 0, 20], [7, 7, 30]],
    [[3, 4, 5]],
)


@pytest.fixture
def types(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The op types of the stages that work on rows, as they are made."""
    monkeypatch.setattr(rows, "MIN_TABLE_BYTES", 0)
    made: list[str] = []
    original = rows.row_stage

    def note(node: Any, *args: Any) -> Any:
        made.append(node.type)
        return original(node, *args)

    monkeypatch.setattr(rows, "row_stage", note)
    return made


def train(cluster: Any, reduce: Any, shape: list[int | None], batches: Any = BATCHES) -> Any:
    """Losses of some steps, and the table after them."""
    start = np.linspace(-1, 1, ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
    device = tf.train.replica_device_setter(
        cluster=tf.train.ClusterSpec(cluster.spec), worker_device="/job:worker/task:0"
    )
    with tf.Graph().as_default(), tf.device(device):
        ids = tf.placeholder(tf.int64, shape)
        table = tf.get_variable(
            "table", initializer=tf.constant(start), partitioner=tf.fixed_size_partitioner(2)
        )
        rows = tf.nn.embedding_lookup(table, ids, partition_strategy="div")
        loss = tf.reduce_sum(tf.square(reduce(rows) - 0.5) * tf.constant([1.0, 2.0, 3.0, 4.0]))
        step = tf.train.AdagradOptimizer(0.5).minimize(loss)
        with tf.Session(cluster.target("worker")) as session:
            session.run(tf.global_variables_initializer())
            losses = [session.run([loss, step], {ids: batch})[0] for batch in batches]
            return losses, session.run(tf.concat(list(table), 0))


def mean(rows: Any) -> Any:
    return tf.reduce_mean(rows, 1)


def total(rows: Any) -> Any:
    return tf.reduce_sum(rows, -2)


@pytest.mark.parametrize("reduce", [mean, total])
@pytest.mark.parametrize("first", [3, None])
def test_bags_train_as_rows_one_by_one_do(
    reduce: Any,
    first: int | None,
    make_cluster: Any,
    types: list[str],
    without_pass: Any,
) -> None:
    batches = [batch for batch in BATCHES if first in (None, len(batch))]
    cluster = make_cluster({"ps": 2, "worker": 1})
    losses, table = train(cluster, reduce, [first, 3], batches)
    assert types.count("_BagOfRows") == 2 and types.count("_SumBags") == 2
    assert "_RoutedStitch" not in types
    without_pass(bag_rows)
    wanted, wanted_table = train(make_cluster({"ps": 2, "worker": 1}), reduce, [first, 3], batches)
    assert types.count("_BagOfRows") == 2 and types.count("_RoutedStitch") == 1
    np.testing.assert_allclose(losses, wanted, rtol=1e-6)
    np.testing.assert_allclose(table, wanted_table, rtol=1e-6, atol=1e-7)


def test_rows_that_are_used_otherwise_too_stay_side_by_side(
    make_cluster: Any, types: list[str]
) -> None:
    cluster = make_cluster({"ps": 2, "worker": 1})
    train(cluster, lambda rows: tf.reduce_mean(rows, 1) + tf.reduce_max(rows, 1), [None, 3])
    assert "_RoutedStitch" in types and "_BagOfRows" not in types


def test_sums_over_other_dimensions_are_no_bags(make_cluster: Any, types: list[str]) -> None:
    cluster = make_cluster({"ps": 2, "worker": 1})
    train(cluster, lambda rows: tf.reduce_mean(rows, 0), [None, 3])
    train(cluster, lambda rows: tf.reduce_mean(rows, 1, keepdims=True), [None, 3])
    assert types.count("_RoutedStitch") == 2 and "_BagOfRows" not in types


def test_a_bag_of_an_id_without_a_row_is_an_error(make_cluster: Any, types: list[str]) -> None:
    cluster = make_cluster({"ps": 2, "worker": 1})
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"is not in \[0, 2\)"):
        train(cluster, mean, [None, 3], [[[1, 2, ROWS]]])
    assert "_BagOfRows" in types
