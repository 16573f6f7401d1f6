"""A table in parts on several parameter servers: few programs, and results as without padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.passes.pad_unique import pad_unique

ROWS, WIDTH = 40, 4


def ids_of(seed: int, shape: tuple[int, ...] = (6, 5)) -> Any:
    """Ids of which some are frequent: how many are distinct, and where, differs each time."""
    random = np.random.default_rng(seed)
    frequent = random.integers(0, 5, shape)
    return np.where(random.random(shape) < 0.5, frequent, random.integers(0, ROWS, shape))


def setter(cluster: Any) -> Any:
    return tf.train.replica_device_setter(
        cluster=tf.train.ClusterSpec(cluster.spec), worker_device="/job:worker/task:0"
    )


def table(parts: int, resource: bool = False, rows: int = ROWS) -> Any:
    start = np.linspace(-1, 1, rows * WIDTH, dtype=np.float32).reshape(rows, WIDTH)
    return tf.get_variable(
        "table",
        initializer=tf.constant(start),
        partitioner=tf.fixed_size_partitioner(parts),
        use_resource=resource,
    )


def plain(ids: Any, resource: bool) -> Any:
    rows = tf.nn.embedding_lookup(table(2, resource), ids, partition_strategy="div")
    return tf.reduce_sum(tf.square(rows - 0.5) * tf.constant([1.0, 2.0, 3.0, 4.0]))


def twice(ids: Any, resource: bool) -> Any:
    parts = table(3, resource)
    first = tf.nn.embedding_lookup(parts, ids)
    second = tf.nn.embedding_lookup(parts, ids[:2])
    return tf.reduce_sum(tf.square(first)) + tf.reduce_sum(second)


def limited(ids: Any, resource: bool) -> Any:
    rows = tf.nn.embedding_lookup(table(2, resource), ids, max_norm=1.0)
    return tf.reduce_sum(tf.square(rows - 0.5))


def minimize(optimizer: Any, loss: Any) -> Any:
    return optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())


def minimize_clipped(optimizer: Any, loss: Any) -> Any:
    gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
    clipped, _ = tf.clip_by_global_norm(gradients, 1.0)
    return optimizer.apply_gradients(zip(clipped, variables, strict=True))


CASES: dict[str, tuple[Callable[..., Any], Callable[[], Any], bool, Callable[..., Any]]] = {
    "adagrad": (plain, lambda: tf.train.AdagradOptimizer(0.5), False, minimize),
    "adam_resource": (plain, lambda: tf.train.AdamOptimizer(0.1), True, minimize),
    "descent": (plain, lambda: tf.train.GradientDescentOptimizer(0.1), False, minimize),
    "two_lookups": (twice, lambda: tf.train.MomentumOptimizer(0.1, 0.9), False, minimize),
    "max_norm": (limited, lambda: tf.train.FtrlOptimizer(0.1), False, minimize),
    "clipped": (plain, lambda: tf.train.AdagradOptimizer(0.5), False, minimize_clipped),
}


@pytest.mark.parametrize("case", CASES)
def test_a_table_on_two_servers_trains_as_without_padding(
    case: str, make_cluster: Any, without_pass: Any
) -> None:
    cluster = make_cluster({"ps": 2, "worker": 1})
    model, optimizer, resource, train = CASES[case]

    def trained(target: str, device: Any) -> list[Any]:
        with tf.Graph().as_default(), tf.device(device):
            ids = tf.placeholder(tf.int64, [None, 5])
            loss = model(ids, resource)
            step = train(optimizer(), loss)
            with tf.Session(target) as sess:
                sess.run(tf.global_variables_initializer())
                losses = [sess.run([loss, step], {ids: ids_of(i)})[0] for i in range(2)]
                return [*losses, *sess.run(tf.global_variables())]

    routed = trained(cluster.target("worker"), setter(cluster))
    without_pass(pad_unique)
    exact = trained("", None)
    for found, wanted in zip(routed, exact, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("train", [minimize, minimize_clipped])
def test_the_number_of_rows_may_differ_in_every_step_without_compiling_again(
    make_cluster: Any, compiled: list[str], train: Any
) -> None:
    cluster = make_cluster({"ps": 2, "worker": 1})
    with tf.device(setter(cluster)):
        ids = tf.placeholder(tf.int64, [6, 5])
        step = train(tf.train.AdagradOptimizer(0.5), plain(ids, False))
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(step, {ids: ids_of(0)})
        before, calls = len(compiled), xla_calls(cluster)
        assert before > 0
        for i in range(1, 50):
            sess.run(step, {ids: ids_of(i)})
        assert len(compiled) - before <= 16
        assert xla_calls(cluster) - calls <= 49 * 10


def xla_calls(cluster: Any) -> int:
    return sum(server.worker.xla_calls for server in cluster.servers.values())


def test_a_row_is_sent_once_each_way_however_often_it_is_looked_up(
    make_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = make_cluster({"ps": 2, "worker": 1})
    sent: list[int] = []
    for server in cluster.servers.values():
        post = server.peers.post

        def note(address: str, message: Any, post: Any = post) -> None:
            sent.extend(t.shape[0] for t in message.tensors if getattr(t, "ndim", 0) == 2)
            post(address, message)

        # A master sends through its peers, a worker through what it was given of them.
        monkeypatch.setattr(server.peers, "post", note)
        monkeypatch.setattr(server.worker, "post", note)
    with tf.device(setter(cluster)):
        ids = tf.placeholder(tf.int64, [None, 5])
        step = minimize(tf.train.AdagradOptimizer(0.5), plain(ids, False))
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(tf.global_variables_initializer())
        sent.clear()
        sess.run(step, {ids: np.tile([[0, 1, 2, 20, 39]], [100, 1])})
    assert sent == [8, 8, 8, 8]  # of 300 and 200: rows and gradients, for each server


@pytest.mark.parametrize("bad", [-1, ROWS, 2**63 - 1])
def test_a_row_that_is_not_there_fails_the_step_and_changes_nothing(
    bad: int, make_cluster: Any
) -> None:
    cluster = make_cluster({"ps": 2, "worker": 1})
    with tf.device(setter(cluster)):
        ids = tf.placeholder(tf.int64, [1, 5])
        step = minimize(tf.train.AdagradOptimizer(0.5), plain(ids, False))
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(tf.global_variables_initializer())
        before = sess.run(tf.trainable_variables())
        with pytest.raises(tf.errors.InvalidArgumentError, match="is not in|is no index"):
            sess.run(step, {ids: [[1, 2, 3, bad, 4]]})
        for old, new in zip(before, sess.run(tf.trainable_variables()), strict=True):
            np.testing.assert_array_equal(old, new)


def test_who_fetches_the_parts_sees_no_padding(make_cluster: Any) -> None:
    cluster = make_cluster({"ps": 2, "worker": 1})
    with tf.device(setter(cluster)):
        ids = tf.placeholder(tf.int64, [1, 5])
        loss = plain(ids, False)
    parts = [t for t in tf.get_default_graph().get_operations() if t.type == "GatherV2"]
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(tf.global_variables_initializer())
        found = sess.run([loss, *(op.outputs[0] for op in parts)], {ids: [[1, 1, 30, 2, 31]]})
    assert [rows.shape for rows in found[1:]] == [(3, WIDTH), (2, WIDTH)]


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_synchronous_training_of_a_table_is_that_of_one_worker_without_compiling_again(
    dtype: Any, make_cluster: Any, compiled: list[str], without_pass: Any
) -> None:
    cluster = make_cluster({"ps": 2, "worker": 1})
    steps = 12
    with tf.Graph().as_default(), tf.device(setter(cluster)):
        ids = tf.placeholder(dtype, [None, 5])
        loss = plain(ids, False)
        optimizer = tf.train.SyncReplicasOptimizer(tf.train.AdagradOptimizer(0.5), 1, 1)
        step = minimize(optimizer, loss)
        with tf.train.MonitoredTrainingSession(
            cluster.target("worker"), hooks=[optimizer.make_session_run_hook(True, num_tokens=0)]
        ) as sess:
            found = []
            for i in range(steps):
                if i == 3:
                    before = len(compiled)
                found.append(sess.run([loss, step], {ids: ids_of(i)})[0])
            assert len(compiled) - before <= 10
    without_pass(pad_unique)
    with tf.Graph().as_default(), tf.Session() as sess:
        ids = tf.placeholder(dtype, [None, 5])
        loss = plain(ids, False)
        step = minimize(tf.train.AdagradOptimizer(0.5), loss)
        sess.run(tf.global_variables_initializer())
        wanted = [sess.run([loss, step], {ids: ids_of(i)})[0] for i in range(4)]
    np.testing.assert_allclose(found[:4], wanted, rtol=1e-5)


def test_who_takes_gradients_of_rows_sees_no_padding(make_cluster: Any) -> None:
    cluster = make_cluster({"ps": 1, "worker": 1})
    with tf.device("/job:ps/task:0"):
        accumulator = tf.SparseConditionalAccumulator(tf.float32, shape=[ROWS, 2])
        variable = tf.Variable(tf.zeros([ROWS, 2]))
        put = accumulator.apply_indexed_slices_grad(
            tf.IndexedSlices(tf.ones([3, 2]), tf.constant([4, 1, 4], tf.int64)), local_step=9
        )
        taken = accumulator.take_indexed_slices_grad(1)
        update = tf.scatter_add(variable, taken.indices, taken.values)
        total = tf.reduce_sum(taken.values)
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(put)
        indices, values = sess.run([taken.indices, taken.values])
        assert (sorted(indices.tolist()), values.shape) == ([1, 4, 4], (3, 2))
        sess.run(put)
        assert sess.run(total) == 6
        sess.run(put)
        assert sess.run(update)[4].tolist() == [2, 2]
